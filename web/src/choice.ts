/** What a conversation is sent with: its agent, project, model, layout and marker policy. */

import type { Agent, Layout } from './objects.ts'
import type { Conversation, ConversationPatch } from './api.ts'

/** What was asked for a conversation that does not exist yet; null leaves it to the agent, the layout or the server. */
export interface Choice {
  agent_id: string | null
  project_id: string | null
  model: string | null
  layout: string | null
  marker_policy: string | null
  thinking_effort: string | null
}

export const noChoice: Choice = {
  agent_id: null,
  project_id: null,
  model: null,
  layout: null,
  marker_policy: null,
  thinking_effort: null,
}

/** The efforts of a conversation that does not exist yet. */
export const efforts = ['off', 'low', 'medium', 'high']

export const DEFAULT_LAYOUT = 'lamella'

export const markerPolicies: Record<string, { name: string; does: string }> = {
  planner: { name: 'Planner', does: 'Places up to four markers where reading pays for writing, by the prices of the model.' },
  seed: { name: 'Fixed', does: 'After the system prompt, and at the last two messages.' },
  auto_tail: { name: 'At the end', does: 'One marker at the end of each request.' },
  off: { name: 'None', does: 'Nothing is cached, unless the provider does so by itself.' },
}

/** What will be in force in a new conversation: what was asked, else what the agent names, else the default. */
export function inForce(choice: Choice, agents: readonly Agent[], layouts: readonly Layout[], model: string | null) {
  const agent = agents.find((one) => one.id === choice.agent_id)
  const layout = choice.layout ?? agent?.layout ?? DEFAULT_LAYOUT
  return {
    agent_id: choice.agent_id,
    project_id: choice.project_id,
    model: choice.model ?? agent?.model ?? model,
    layout,
    marker_policy: choice.marker_policy ?? layouts.find((one) => one.name === layout)?.markers ?? null,
    thinking_effort: choice.thinking_effort,
  }
}

/** The body that asks for it: only what was chosen. */
export function asked(choice: Choice): ConversationPatch {
  return Object.fromEntries(Object.entries(choice).filter(([, value]) => value !== null))
}

/** The same of a conversation that exists. */
export function choiceOf(conversation: Conversation): Choice {
  const { agent_id, project_id, model, layout, marker_policy, thinking_effort } = conversation
  return { agent_id, project_id, model, layout, marker_policy, thinking_effort }
}

/** The most models that answer a message. */
export const MOST_MODELS = 3

/** The models of a message where there are several; nothing where the conversation's answers alone. */
export function severalModels(model: string | null, others: readonly string[]): { models?: string[] } {
  const models = [...new Set([...(model === null ? [] : [model]), ...others])].slice(0, MOST_MODELS)
  return model !== null && models.length > 1 ? { models } : {}
}
