/** Agents, projects, system prompts and layouts: what shapes a request besides its message. */

import { ApiError, body, everything, json, newKey, query, withKey } from './api.ts'
import type { Agent, Layout, NewProject, NewSystemPrompt, Project, SystemPrompt } from './objects.ts'

/** An agent as its form has it. */
export type AgentValue = Omit<Agent, 'id' | 'object' | 'revision' | 'created_at' | 'updated_at'>

/** A project as its form has it. */
export type ProjectValue = Required<NewProject>

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
  addSystemPrompt: (value: NewSystemPrompt) =>
    json<SystemPrompt>('/system-prompts', withKey(body('POST', value), newKey())),
  layouts: () => everything<Layout>('/layouts'),
}

/** Refuse an empty field before the server does, in the words of the form. */
export function required<Value>(value: Value, field: keyof Value & string, message: string, hint: string): Value {
  const text = value[field]
  if (typeof text === 'string' && text.trim() !== '') return value
  throw new ApiError(400, { message, code: 'invalid_request', param: field, hint })
}
