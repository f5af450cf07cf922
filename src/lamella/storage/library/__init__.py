"""What conversations stand on: agents, projects, system prompts, files, and documents that were found."""
