"""The Messages wire: parsing, rules, thinking signatures, events and routes of the Anthropic API."""
