-- The tables as revision 0035 left them on SQLite, with the user that every database begins with. Frozen: a later change is a revision of its own.

CREATE TABLE users (
  id VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  folded VARCHAR NOT NULL,
  role VARCHAR NOT NULL,
  disabled BOOLEAN NOT NULL,
  created_at VARCHAR NOT NULL,
  CONSTRAINT pk_users PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_users_folded ON users (folded);
INSERT INTO users VALUES
  ('user_local', 'Local user', 'local user', 'admin', 0, strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now'));
CREATE TABLE set_ups (
  owner VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  CONSTRAINT pk_set_ups PRIMARY KEY (name)
);
CREATE TABLE groups (
  id VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  folded VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  CONSTRAINT pk_groups PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_groups_folded ON groups (folded);
CREATE TABLE knowledge_bases (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  visible BOOLEAN NOT NULL,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  hint TEXT DEFAULT '' NOT NULL,
  summary TEXT DEFAULT '' NOT NULL,
  topics TEXT DEFAULT '[]' NOT NULL,
  described_by TEXT DEFAULT 'nobody' NOT NULL,
  described_from TEXT DEFAULT '' NOT NULL,
  keywords TEXT DEFAULT '[]' NOT NULL,
  CONSTRAINT pk_knowledge_bases PRIMARY KEY (id)
);
CREATE INDEX ix_knowledge_bases_owner_id ON knowledge_bases (owner, id);
CREATE TABLE grant_changes (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  knowledge_base_id VARCHAR NOT NULL,
  subject_id VARCHAR NOT NULL,
  subject_kind VARCHAR NOT NULL,
  subject_name TEXT NOT NULL,
  "by" VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  "before" VARCHAR,
  "after" VARCHAR,
  CONSTRAINT pk_grant_changes PRIMARY KEY (id)
);
CREATE INDEX ix_grant_changes_knowledge_base_id_id ON grant_changes (knowledge_base_id, id);
CREATE TABLE member_changes (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  user_name TEXT NOT NULL,
  group_id VARCHAR NOT NULL,
  group_name TEXT NOT NULL,
  "by" VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  "before" VARCHAR,
  "after" VARCHAR,
  CONSTRAINT pk_member_changes PRIMARY KEY (id)
);
CREATE TABLE knowledge_shelves (
  number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  owner VARCHAR NOT NULL,
  name VARCHAR NOT NULL
);
CREATE UNIQUE INDEX uq_knowledge_shelves_owner_name ON knowledge_shelves (owner, name);
CREATE TABLE agents (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  name TEXT NOT NULL,
  prompt TEXT NOT NULL,
  reminder TEXT NOT NULL,
  replaces_system BOOLEAN NOT NULL,
  tools TEXT,
  model VARCHAR,
  layout VARCHAR,
  thinking_effort VARCHAR,
  fallback_model VARCHAR,
  revision INTEGER NOT NULL,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  CONSTRAINT pk_agents PRIMARY KEY (id)
);
CREATE INDEX ix_agents_owner_id ON agents (owner, id);
CREATE TABLE projects (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  name TEXT NOT NULL,
  instructions TEXT NOT NULL,
  revision INTEGER NOT NULL,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  CONSTRAINT pk_projects PRIMARY KEY (id)
);
CREATE INDEX ix_projects_owner_id ON projects (owner, id);
CREATE TABLE system_prompts (
  owner VARCHAR NOT NULL,
  version INTEGER NOT NULL,
  text TEXT NOT NULL,
  note TEXT NOT NULL,
  created_at VARCHAR NOT NULL,
  CONSTRAINT pk_system_prompts PRIMARY KEY (owner, version)
);
CREATE TABLE files (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  name TEXT NOT NULL,
  media_type VARCHAR NOT NULL,
  size BIGINT NOT NULL,
  status VARCHAR NOT NULL,
  tokens INTEGER NOT NULL,
  created_at VARCHAR NOT NULL,
  pages INTEGER,
  code VARCHAR,
  reason TEXT,
  width INTEGER,
  height INTEGER,
  CONSTRAINT pk_files PRIMARY KEY (id)
);
CREATE INDEX ix_files_owner_id ON files (owner, id);
CREATE TABLE recall_versions (
  owner VARCHAR NOT NULL,
  changed BIGINT NOT NULL,
  CONSTRAINT pk_recall_versions PRIMARY KEY (owner)
);
CREATE TABLE cache_entries (
  "key" VARCHAR NOT NULL,
  tokens INTEGER NOT NULL,
  ttl VARCHAR NOT NULL,
  used_at VARCHAR NOT NULL,
  ends_at VARCHAR NOT NULL,
  exact BOOLEAN NOT NULL,
  CONSTRAINT pk_cache_entries PRIMARY KEY ("key")
);
CREATE INDEX ix_cache_entries_ends_at ON cache_entries (ends_at);
CREATE TABLE provider_limits (
  account VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  tokens INTEGER NOT NULL,
  until VARCHAR NOT NULL,
  CONSTRAINT pk_provider_limits PRIMARY KEY (account, model)
);
CREATE TABLE idempotency_keys (
  owner VARCHAR NOT NULL,
  "key" VARCHAR NOT NULL,
  route VARCHAR NOT NULL,
  fingerprint VARCHAR NOT NULL,
  result_id VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  CONSTRAINT pk_idempotency_keys PRIMARY KEY (owner, "key")
);
CREATE INDEX ix_idempotency_keys_result_id ON idempotency_keys (result_id);
CREATE TABLE jobs (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  subject VARCHAR NOT NULL,
  payload TEXT NOT NULL,
  cause TEXT NOT NULL,
  status VARCHAR NOT NULL,
  attempts INTEGER NOT NULL,
  token INTEGER NOT NULL,
  due_at VARCHAR NOT NULL,
  asked_at VARCHAR DEFAULT '' NOT NULL,
  created_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  error TEXT,
  again BOOLEAN DEFAULT 0 NOT NULL,
  CONSTRAINT pk_jobs PRIMARY KEY (id)
);
CREATE INDEX ix_jobs_subject ON jobs (subject);
CREATE INDEX ix_jobs_kind_status_due_at ON jobs (kind, status, due_at);
CREATE UNIQUE INDEX uq_jobs_owner_kind_subject ON jobs (owner, kind, subject);
CREATE TABLE group_members (
  group_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  CONSTRAINT pk_group_members PRIMARY KEY (group_id, owner),
  CONSTRAINT fk_group_members_group_id FOREIGN KEY(group_id) REFERENCES groups (id) ON DELETE CASCADE,
  CONSTRAINT fk_group_members_owner FOREIGN KEY(owner) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_group_members_owner ON group_members (owner);
CREATE TABLE api_keys (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  name TEXT NOT NULL,
  prefix VARCHAR NOT NULL,
  digest BLOB NOT NULL,
  scopes TEXT NOT NULL,
  issued_by VARCHAR NOT NULL,
  parent_id VARCHAR,
  created_at VARCHAR NOT NULL,
  expires_at VARCHAR,
  last_used_at VARCHAR,
  revoked_at VARCHAR,
  CONSTRAINT pk_api_keys PRIMARY KEY (id),
  CONSTRAINT fk_api_keys_owner FOREIGN KEY(owner) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT fk_api_keys_parent_id FOREIGN KEY(parent_id) REFERENCES api_keys (id) ON DELETE CASCADE
);
CREATE INDEX ix_api_keys_owner_id ON api_keys (owner, id);
CREATE INDEX ix_api_keys_prefix ON api_keys (prefix);
CREATE INDEX ix_api_keys_parent_id ON api_keys (parent_id);
CREATE TABLE grants (
  knowledge_base_id VARCHAR NOT NULL,
  subject_id VARCHAR NOT NULL,
  subject_kind VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  level VARCHAR NOT NULL,
  "by" VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  CONSTRAINT pk_grants PRIMARY KEY (knowledge_base_id, subject_id),
  CONSTRAINT fk_grants_knowledge_base_id FOREIGN KEY(knowledge_base_id) REFERENCES knowledge_bases (id) ON DELETE CASCADE
);
CREATE INDEX ix_grants_subject_id ON grants (subject_id);
CREATE TABLE restricted_uses (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  knowledge_base_id VARCHAR NOT NULL,
  user_id VARCHAR NOT NULL,
  user_name TEXT NOT NULL,
  at VARCHAR NOT NULL,
  question TEXT NOT NULL,
  decision VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  chunks INTEGER NOT NULL,
  removed TEXT NOT NULL,
  cached BOOLEAN NOT NULL,
  model VARCHAR NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  CONSTRAINT pk_restricted_uses PRIMARY KEY (id),
  CONSTRAINT fk_restricted_uses_knowledge_base_id FOREIGN KEY(knowledge_base_id) REFERENCES knowledge_bases (id) ON DELETE CASCADE
);
CREATE INDEX ix_restricted_uses_knowledge_base_id_id ON restricted_uses (knowledge_base_id, id);
CREATE TABLE conversations (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  title TEXT NOT NULL,
  model VARCHAR NOT NULL,
  layout VARCHAR NOT NULL,
  marker_policy VARCHAR NOT NULL,
  system_prompt TEXT NOT NULL,
  tools TEXT NOT NULL,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  head VARCHAR,
  running_turn VARCHAR,
  next_document INTEGER DEFAULT '1' NOT NULL,
  agent_id VARCHAR,
  project_id VARCHAR,
  system_prompt_version INTEGER DEFAULT '0' NOT NULL,
  session_id VARCHAR NOT NULL,
  thinking_effort VARCHAR,
  head_run_id VARCHAR,
  forked BOOLEAN DEFAULT 0 NOT NULL,
  titled_by VARCHAR DEFAULT 'user' NOT NULL,
  CONSTRAINT pk_conversations PRIMARY KEY (id),
  CONSTRAINT fk_conversations_agent_id FOREIGN KEY(agent_id) REFERENCES agents (id) ON DELETE SET NULL,
  CONSTRAINT fk_conversations_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE SET NULL
);
CREATE INDEX ix_conversations_project_id ON conversations (project_id);
CREATE INDEX ix_conversations_owner_id ON conversations (owner, id);
CREATE INDEX ix_conversations_agent_id ON conversations (agent_id);
CREATE TABLE knowledge_documents (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  shelf BIGINT NOT NULL,
  name TEXT NOT NULL,
  media_type VARCHAR NOT NULL,
  size BIGINT NOT NULL,
  digest VARCHAR NOT NULL,
  upload VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  code VARCHAR,
  reason TEXT,
  pages INTEGER,
  tokens INTEGER NOT NULL,
  version INTEGER NOT NULL,
  found INTEGER,
  revision INTEGER NOT NULL,
  passages INTEGER NOT NULL,
  embedded INTEGER NOT NULL,
  model VARCHAR,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  removed BOOLEAN NOT NULL,
  CONSTRAINT pk_knowledge_documents PRIMARY KEY (id),
  CONSTRAINT fk_knowledge_documents_shelf FOREIGN KEY(shelf) REFERENCES knowledge_shelves (number) ON DELETE CASCADE
);
CREATE INDEX ix_knowledge_documents_state ON knowledge_documents (state);
CREATE INDEX ix_knowledge_documents_shelf_id ON knowledge_documents (shelf, id);
CREATE TABLE knowledge_bindings (
  subject_id VARCHAR NOT NULL,
  knowledge_base_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  CONSTRAINT pk_knowledge_bindings PRIMARY KEY (subject_id, knowledge_base_id),
  CONSTRAINT fk_knowledge_bindings_knowledge_base_id FOREIGN KEY(knowledge_base_id) REFERENCES knowledge_bases (id) ON DELETE CASCADE
);
CREATE TABLE file_texts (
  file_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_file_texts PRIMARY KEY (file_id),
  CONSTRAINT fk_file_texts_file_id FOREIGN KEY(file_id) REFERENCES files (id) ON DELETE CASCADE
);
CREATE TABLE file_images (
  file_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  media_type VARCHAR NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  digest VARCHAR NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_file_images PRIMARY KEY (file_id),
  CONSTRAINT fk_file_images_file_id FOREIGN KEY(file_id) REFERENCES files (id) ON DELETE CASCADE
);
CREATE TABLE project_files (
  project_id VARCHAR NOT NULL,
  file_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  CONSTRAINT pk_project_files PRIMARY KEY (project_id, file_id),
  CONSTRAINT fk_project_files_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE,
  CONSTRAINT fk_project_files_file_id FOREIGN KEY(file_id) REFERENCES files (id)
);
CREATE INDEX ix_project_files_file_id ON project_files (file_id);
CREATE TABLE sessions (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  parent_id VARCHAR,
  begins_after VARCHAR,
  inherits BOOLEAN NOT NULL,
  carries TEXT,
  opened_at VARCHAR NOT NULL,
  opened_by VARCHAR NOT NULL,
  closed_at VARCHAR,
  closed_by VARCHAR,
  ends_with VARCHAR,
  why TEXT DEFAULT '' NOT NULL,
  summary TEXT,
  summary_tokens INTEGER DEFAULT '0' NOT NULL,
  summary_ends_with VARCHAR,
  summary_check TEXT DEFAULT '{}' NOT NULL,
  embedding BLOB,
  embedding_model VARCHAR,
  usage TEXT DEFAULT '{}' NOT NULL,
  made_from TEXT DEFAULT '[]' NOT NULL,
  CONSTRAINT pk_sessions PRIMARY KEY (id),
  CONSTRAINT fk_sessions_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,
  CONSTRAINT fk_sessions_parent_id FOREIGN KEY(parent_id) REFERENCES sessions (id)
);
CREATE INDEX ix_sessions_parent_id ON sessions (parent_id);
CREATE UNIQUE INDEX uq_sessions_conversation_id_number ON sessions (conversation_id, number);
CREATE TABLE decisions (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  subject TEXT NOT NULL,
  outcome TEXT NOT NULL,
  who VARCHAR NOT NULL,
  why TEXT NOT NULL,
  numbers TEXT NOT NULL,
  first_changed VARCHAR,
  turn_id VARCHAR,
  run_id VARCHAR,
  CONSTRAINT pk_decisions PRIMARY KEY (id),
  CONSTRAINT fk_decisions_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE INDEX ix_decisions_conversation_id ON decisions (conversation_id);
CREATE TABLE queued_messages (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  sender VARCHAR NOT NULL,
  text TEXT NOT NULL,
  sent_at VARCHAR NOT NULL,
  timezone VARCHAR NOT NULL,
  payload TEXT NOT NULL,
  status VARCHAR NOT NULL,
  turn_id VARCHAR,
  CONSTRAINT pk_queued_messages PRIMARY KEY (id),
  CONSTRAINT fk_queued_messages_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_queued_messages_conversation_id_seq ON queued_messages (conversation_id, seq);
CREATE INDEX ix_queued_messages_status ON queued_messages (status);
CREATE TABLE notices (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  turn_id VARCHAR,
  kind VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  argument TEXT NOT NULL,
  text TEXT NOT NULL,
  data TEXT NOT NULL,
  at VARCHAR NOT NULL,
  CONSTRAINT pk_notices PRIMARY KEY (id),
  CONSTRAINT fk_notices_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE INDEX ix_notices_conversation_id ON notices (conversation_id);
CREATE TABLE knowledge_passages (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  owner VARCHAR NOT NULL,
  document_id VARCHAR NOT NULL,
  version INTEGER NOT NULL,
  position INTEGER NOT NULL,
  start INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  page INTEGER,
  headings TEXT NOT NULL,
  length INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  digest VARCHAR NOT NULL,
  text TEXT NOT NULL,
  CONSTRAINT fk_knowledge_passages_document_id FOREIGN KEY(document_id) REFERENCES knowledge_documents (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_knowledge_passages_document_id_version_position ON knowledge_passages (document_id, version, position);
CREATE VIRTUAL TABLE knowledge_words USING fts5(terms, tokenize = 'ascii');
CREATE VIRTUAL TABLE knowledge_postings USING fts5vocab('knowledge_words', 'instance');
CREATE TRIGGER knowledge_words_forget AFTER DELETE ON knowledge_passages BEGIN DELETE FROM knowledge_words WHERE rowid = old.id; END;
CREATE TABLE knowledge_calls (
  conversation_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  calls INTEGER NOT NULL,
  turn_id VARCHAR NOT NULL,
  turn_calls INTEGER NOT NULL,
  CONSTRAINT pk_knowledge_calls PRIMARY KEY (conversation_id),
  CONSTRAINT fk_knowledge_calls_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE TABLE recall_entries (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  source_id VARCHAR NOT NULL,
  call_id VARCHAR NOT NULL,
  speaker VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  start INTEGER NOT NULL,
  "end" INTEGER NOT NULL,
  length INTEGER NOT NULL,
  CONSTRAINT fk_recall_entries_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE INDEX ix_recall_entries_conversation_id_call_id ON recall_entries (conversation_id, call_id);
CREATE INDEX ix_recall_entries_owner_conversation_id_id ON recall_entries (owner, conversation_id, id);
CREATE INDEX ix_recall_entries_owner_id ON recall_entries (owner, id);
CREATE UNIQUE INDEX uq_recall_entries_source_id_call_id_start ON recall_entries (source_id, call_id, start);
CREATE VIRTUAL TABLE recall_words USING fts5(terms, tokenize = 'ascii');
CREATE VIRTUAL TABLE recall_postings USING fts5vocab('recall_words', 'instance');
CREATE TRIGGER recall_words_forget AFTER DELETE ON recall_entries BEGIN DELETE FROM recall_words WHERE rowid = old.id; END;
CREATE TABLE blocks (
  conversation_id VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  level VARCHAR NOT NULL,
  role VARCHAR NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_blocks PRIMARY KEY (conversation_id, digest),
  CONSTRAINT fk_blocks_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE TABLE turns (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  parent_id VARCHAR,
  status VARCHAR NOT NULL,
  started_at VARCHAR NOT NULL,
  finished_at VARCHAR,
  error TEXT,
  input_tokens INTEGER DEFAULT '0' NOT NULL,
  cache_read_tokens INTEGER DEFAULT '0' NOT NULL,
  cache_write_5m_tokens INTEGER DEFAULT '0' NOT NULL,
  cache_write_1h_tokens INTEGER DEFAULT '0' NOT NULL,
  output_tokens INTEGER DEFAULT '0' NOT NULL,
  reasoning_tokens INTEGER DEFAULT '0' NOT NULL,
  usage_estimated BOOLEAN DEFAULT 0 NOT NULL,
  input_estimated BOOLEAN DEFAULT 0 NOT NULL,
  cost FLOAT DEFAULT '0' NOT NULL,
  parent_run_id VARCHAR,
  CONSTRAINT pk_turns PRIMARY KEY (id),
  CONSTRAINT fk_turns_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,
  CONSTRAINT fk_turns_parent_id FOREIGN KEY(parent_id) REFERENCES turns (id)
);
CREATE INDEX ix_turns_conversation_id_id ON turns (conversation_id, id);
CREATE UNIQUE INDEX uq_turns_running ON turns (conversation_id) WHERE status = 'running';
CREATE INDEX ix_turns_parent_id ON turns (parent_id);
CREATE TABLE pinned (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  data TEXT NOT NULL,
  CONSTRAINT pk_pinned PRIMARY KEY (id),
  CONSTRAINT fk_pinned_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE INDEX ix_pinned_conversation_id_at ON pinned (conversation_id, at);
CREATE TABLE document_numbers (
  conversation_id VARCHAR NOT NULL,
  file_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  document INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  project_use INTEGER,
  CONSTRAINT pk_document_numbers PRIMARY KEY (conversation_id, file_id),
  CONSTRAINT fk_document_numbers_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,
  CONSTRAINT fk_document_numbers_file_id FOREIGN KEY(file_id) REFERENCES files (id) ON DELETE CASCADE
);
CREATE INDEX ix_document_numbers_file_id ON document_numbers (file_id);
CREATE TABLE found_documents (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  document INTEGER NOT NULL,
  title TEXT NOT NULL,
  media_type VARCHAR NOT NULL,
  url TEXT,
  size INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  digest VARCHAR NOT NULL,
  data BLOB NOT NULL,
  created_at VARCHAR NOT NULL,
  CONSTRAINT pk_found_documents PRIMARY KEY (id),
  CONSTRAINT fk_found_documents_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX ix_found_documents_conversation_id_digest ON found_documents (conversation_id, digest);
CREATE TABLE knowledge_vectors (
  entry_id BIGINT NOT NULL,
  owner VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  dimension INTEGER NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_knowledge_vectors PRIMARY KEY (entry_id),
  CONSTRAINT fk_knowledge_vectors_entry_id FOREIGN KEY(entry_id) REFERENCES knowledge_passages (id) ON DELETE CASCADE
);
CREATE INDEX ix_knowledge_vectors_owner_model_dimension ON knowledge_vectors (owner, model, dimension);
CREATE TABLE recall_vectors (
  entry_id BIGINT NOT NULL,
  owner VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  dimension INTEGER NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_recall_vectors PRIMARY KEY (entry_id),
  CONSTRAINT fk_recall_vectors_entry_id FOREIGN KEY(entry_id) REFERENCES recall_entries (id) ON DELETE CASCADE
);
CREATE TABLE recall_turns (
  turn_id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  CONSTRAINT pk_recall_turns PRIMARY KEY (turn_id),
  CONSTRAINT fk_recall_turns_turn_id FOREIGN KEY(turn_id) REFERENCES turns (id) ON DELETE CASCADE
);
CREATE TABLE requests (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  conversation_id VARCHAR NOT NULL,
  turn_id VARCHAR NOT NULL,
  step INTEGER NOT NULL,
  purpose VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  layout VARCHAR NOT NULL,
  marker_policy VARCHAR NOT NULL,
  thinking_effort VARCHAR DEFAULT 'off' NOT NULL,
  at VARCHAR NOT NULL,
  head TEXT NOT NULL,
  letters TEXT NOT NULL,
  base VARCHAR,
  shared INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  length INTEGER NOT NULL,
  segments TEXT NOT NULL,
  zones TEXT NOT NULL,
  markers TEXT NOT NULL,
  notes TEXT NOT NULL,
  protocol VARCHAR NOT NULL,
  local_tokens INTEGER NOT NULL,
  estimate INTEGER NOT NULL,
  budget INTEGER NOT NULL,
  predicted_read INTEGER NOT NULL,
  predicted_written INTEGER NOT NULL,
  predicted_hit INTEGER,
  provider_request_id VARCHAR,
  dropped_thinking INTEGER DEFAULT '0' NOT NULL,
  answer_id VARCHAR,
  diagnosis TEXT,
  said TEXT,
  input_tokens INTEGER,
  cache_read_tokens INTEGER,
  cache_write_5m_tokens INTEGER,
  cache_write_1h_tokens INTEGER,
  output_tokens INTEGER,
  reasoning_tokens INTEGER,
  usage_estimated BOOLEAN,
  input_estimated BOOLEAN,
  cost FLOAT,
  error TEXT,
  absent TEXT DEFAULT '[]' NOT NULL,
  run_id VARCHAR,
  CONSTRAINT pk_requests PRIMARY KEY (id),
  CONSTRAINT fk_requests_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE,
  CONSTRAINT fk_requests_turn_id FOREIGN KEY(turn_id) REFERENCES turns (id) ON DELETE CASCADE,
  CONSTRAINT fk_requests_base FOREIGN KEY(base) REFERENCES requests (id)
);
CREATE INDEX ix_requests_turn_id ON requests (turn_id);
CREATE INDEX ix_requests_conversation_id_model_at ON requests (conversation_id, model, at);
CREATE INDEX ix_requests_base ON requests (base);
CREATE TABLE runs (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  turn_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  model VARCHAR NOT NULL,
  status VARCHAR NOT NULL,
  finished_at VARCHAR,
  error TEXT,
  input_tokens INTEGER DEFAULT '0' NOT NULL,
  cache_read_tokens INTEGER DEFAULT '0' NOT NULL,
  cache_write_5m_tokens INTEGER DEFAULT '0' NOT NULL,
  cache_write_1h_tokens INTEGER DEFAULT '0' NOT NULL,
  output_tokens INTEGER DEFAULT '0' NOT NULL,
  reasoning_tokens INTEGER DEFAULT '0' NOT NULL,
  usage_estimated BOOLEAN DEFAULT 0 NOT NULL,
  input_estimated BOOLEAN DEFAULT 0 NOT NULL,
  cost FLOAT DEFAULT '0' NOT NULL,
  CONSTRAINT pk_runs PRIMARY KEY (id),
  CONSTRAINT fk_runs_turn_id FOREIGN KEY(turn_id) REFERENCES turns (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_runs_turn_id_number ON runs (turn_id, number);
CREATE TABLE messages (
  id VARCHAR NOT NULL,
  owner VARCHAR NOT NULL,
  turn_id VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  role VARCHAR NOT NULL,
  model VARCHAR,
  parts TEXT NOT NULL,
  results TEXT DEFAULT '[]' NOT NULL,
  stop_reason VARCHAR,
  made_after VARCHAR DEFAULT '' NOT NULL,
  reminder TEXT DEFAULT '' NOT NULL,
  tokens INTEGER NOT NULL,
  sent_at VARCHAR,
  timezone VARCHAR,
  dynamic TEXT,
  dynamic_whys TEXT DEFAULT '[]' NOT NULL,
  input_tokens INTEGER,
  cache_read_tokens INTEGER,
  cache_write_5m_tokens INTEGER,
  cache_write_1h_tokens INTEGER,
  output_tokens INTEGER,
  reasoning_tokens INTEGER,
  usage_estimated BOOLEAN,
  input_estimated BOOLEAN,
  cost FLOAT,
  session_id VARCHAR NOT NULL,
  run_id VARCHAR,
  made_from TEXT DEFAULT '[]' NOT NULL,
  CONSTRAINT pk_messages PRIMARY KEY (id),
  CONSTRAINT fk_messages_turn_id FOREIGN KEY(turn_id) REFERENCES turns (id) ON DELETE CASCADE,
  CONSTRAINT fk_messages_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_messages_turn_id_seq ON messages (turn_id, seq);
CREATE INDEX ix_messages_session_id ON messages (session_id);
CREATE TABLE journal (
  turn_id VARCHAR NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  owner VARCHAR NOT NULL,
  data BLOB NOT NULL,
  CONSTRAINT pk_journal PRIMARY KEY (turn_id, first),
  CONSTRAINT fk_journal_turn_id FOREIGN KEY(turn_id) REFERENCES turns (id) ON DELETE CASCADE
);
CREATE TABLE attachments (
  message_id VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  owner VARCHAR NOT NULL,
  file_id VARCHAR NOT NULL,
  document INTEGER NOT NULL,
  use INTEGER DEFAULT '0' NOT NULL,
  CONSTRAINT pk_attachments PRIMARY KEY (message_id, position),
  CONSTRAINT fk_attachments_message_id FOREIGN KEY(message_id) REFERENCES messages (id) ON DELETE CASCADE,
  CONSTRAINT fk_attachments_file_id FOREIGN KEY(file_id) REFERENCES files (id)
);
CREATE INDEX ix_attachments_file_id ON attachments (file_id);
