"""Training of text classifiers with identifiable attention: reproducible, and resumable after a kill."""
