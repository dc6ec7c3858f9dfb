"""Which method is faithful on my model and my data: methods, metrics, and statistics over inputs."""
