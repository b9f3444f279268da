"""What judge, oracle and worker say to each other: commands, answers, and the clients that ask."""
