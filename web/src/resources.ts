/** Agents, projects, system prompts and layouts: what shapes a request besides its message. */

import { ApiError, body, everything, json, newKey, query, withKey } from './api.ts'

export interface AgentValue {
  name: string
  prompt: string
  reminder: string
  replaces_system: boolean
  /** Names of tools; null lets the agent use all. */
  tools: string[] | null
  model: string | null
  layout: string | null
  /** Answers where the model fails before it has said anything; null: the server's. */
  fallback_model: string | null
  /** Null leaves it to the conversation or the server. */
  thinking_effort: string | null
}

export interface Agent extends AgentValue {
  id: string
  object: 'agent'
  revision: number
  created_at: string
  updated_at: string
}

export interface ProjectFile {
  id: string
  name: string
  media_type: string
  tokens: number
  status: 'ready' | 'failed'
  reason?: string | null
  /** Of a picture, in pixels. */
  width?: number
  height?: number
  /** For a model, where it was asked for one. */
  place?: 'in_context' | 'searched' | 'left_out'
  why?: string
}

export interface ProjectValue {
  name: string
  instructions: string
  file_ids: string[]
}

export interface Project {
  id: string
  object: 'project'
  name: string
  instructions: string
  files: ProjectFile[]
  tokens: number
  revision: number
  created_at: string
  updated_at: string
}

export interface SystemPrompt {
  object: 'system_prompt'
  version: number
  text: string
  note: string
  shipped: boolean
  created_at: string | null
}

export interface Layout {
  object: 'layout'
  name: string
  description: string
  markers: string
}

export const resources = {
  agents: () => everything<Agent>('/agents'),
  addAgent: (value: AgentValue) => json<Agent>('/agents', withKey(body('POST', value), newKey())),
  changeAgent: (id: string, value: Partial<AgentValue>) => json<Agent>(`/agents/${id}`, body('PATCH', value)),
  removeAgent: (id: string) => json<null>(`/agents/${id}`, { method: 'DELETE' }),
  projects: () => everything<Project>('/projects'),
  project: (id: string, model: string) => json<Project>(`/projects/${id}${query({ model })}`),
  addProject: (value: ProjectValue) => json<Project>('/projects', withKey(body('POST', value), newKey())),
  changeProject: (id: string, value: Partial<ProjectValue>) => json<Project>(`/projects/${id}`, body('PATCH', value)),
  removeProject: (id: string) => json<null>(`/projects/${id}`, { method: 'DELETE' }),
  systemPrompts: () => everything<SystemPrompt>('/system-prompts'),
  addSystemPrompt: (value: { text: string; note?: string }) =>
    json<SystemPrompt>('/system-prompts', withKey(body('POST', value), newKey())),
  layouts: () => everything<Layout>('/layouts'),
}

/** Refuse an empty field before the server does, in the words of the form. */
export function required<Value>(value: Value, field: keyof Value & string, message: string, hint: string): Value {
  const text = value[field]
  if (typeof text === 'string' && text.trim() !== '') return value
  throw new ApiError(400, { message, code: 'invalid_request', param: field, hint })
}
