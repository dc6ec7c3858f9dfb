"""The engine on Ray: the same rows as the local engine, from several processes or machines."""
