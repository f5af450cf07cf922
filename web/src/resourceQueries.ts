/** What the page keeps of agents, projects, system prompts and layouts. */

import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef } from 'react'
import { unchoose } from './drafts.ts'
import { bind } from './knowledge.ts'
import { keys } from './queries.ts'
import { type AgentValue, type ProjectValue, required, resources } from './resources.ts'

export const resourceKeys = {
  agents: ['agents'] as const,
  projects: ['projects'] as const,
  systemPrompts: ['system-prompts'] as const,
  layouts: ['layouts'] as const,
}

export const useAgents = () => useQuery({ queryKey: resourceKeys.agents, queryFn: resources.agents })

export const useProjects = () => useQuery({ queryKey: resourceKeys.projects, queryFn: resources.projects })

/** Where the files of a project are for a model. */
export const useProjectPlaces = (id: string | null, model: string | null) =>
  useQuery({
    queryKey: [...resourceKeys.projects, id, model],
    queryFn: () => resources.project(id!, model!),
    enabled: id !== null && model !== null,
    placeholderData: keepPreviousData,
  })

export const useSystemPrompts = () =>
  useQuery({ queryKey: resourceKeys.systemPrompts, queryFn: resources.systemPrompts })

export const useLayouts = () => useQuery({ queryKey: resourceKeys.layouts, queryFn: resources.layouts, staleTime: 60_000 })

interface AgentChange {
  value: AgentValue
  bases: readonly string[] | null
}

/** Saves an agent, then binds its bases. Where the second fails, saving again changes the agent that is there by then. */
export async function saveAgent(there: { current: string | null }, { value, bases }: AgentChange) {
  required(value, 'name', 'The agent has no name.', 'Give it one: you choose it by that name.')
  required(value, 'prompt', 'The agent has no prompt.', 'Write what it should do.')
  const saved = await (there.current === null ? resources.addAgent(value) : resources.changeAgent(there.current, value))
  there.current = saved.id
  if (bases !== null) await bind({ kind: 'agents', id: saved.id }, bases)
  return saved
}

export function useSaveAgent(id: string | null) {
  const there = useRef(id)
  return useSaving(resourceKeys.agents, (change: AgentChange) => saveAgent(there, change))
}

export const useRemoveAgent = () => useRemoving(resourceKeys.agents, resources.removeAgent)

export const useSaveProject = (id: string | null) =>
  useSaving(resourceKeys.projects, async (value: ProjectValue) => {
    required(value, 'name', 'The project has no name.', 'Give it one: you choose it by that name.')
    return id === null ? resources.addProject(value) : resources.changeProject(id, value)
  })

export const useRemoveProject = () => useRemoving(resourceKeys.projects, resources.removeProject)

export const useSaveSystemPrompt = () =>
  useSaving(resourceKeys.systemPrompts, async (value: { text: string; note?: string }) =>
    resources.addSystemPrompt(required(value, 'text', 'The system prompt is empty.', 'Write one, or go back to a version below.')),
  )

/** Something that changes a list: done when the list is here again, so that nothing old is shown after it. */
function useSaving<Value, Answer>(queryKey: readonly string[], save: (value: Value) => Promise<Answer>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (value: Value) => save(value),
    onSettled: () => client.invalidateQueries({ queryKey }),
  })
}

/** The same for what is removed: conversations that had it are without it. */
function useRemoving(queryKey: readonly string[], remove: (id: string) => Promise<null>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (id: string) => remove(id),
    onSuccess: (_, id) => {
      unchoose(id)
      return Promise.all([
        client.invalidateQueries({ queryKey }),
        client.invalidateQueries({ queryKey: keys.everyConversation }),
      ])
    },
  })
}
