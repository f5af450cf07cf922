"""Who may do what: users, groups, keys, knowledge bases with their grants, and how restricted ones were used."""
