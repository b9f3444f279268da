"""Messages between judge, oracle and worker: commands, answers, and the clients that ask."""
