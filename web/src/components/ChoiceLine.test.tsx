import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import type { Conversation } from '../api.ts'
import { resourceKeys } from '../resourceQueries.ts'
import { ChoiceLine } from './ChoiceLine.tsx'
import { Pick } from './Pick.tsx'

const conversation: Conversation = {
  id: 'conv_1',
  object: 'conversation',
  title: 'Looms',
  model: 'model-a',
  agent_id: 'agent_1',
  project_id: 'proj_9',
  layout: 'onyx',
  marker_policy: 'auto_tail',
  system_prompt_version: 1,
  thinking_effort: '6000',
  created_at: '2026-11-21T12:00:00Z',
  updated_at: '2026-11-21T12:00:00Z',
  running_turn: null,
  head: null,
  head_run_id: null,
  observed: false,
  titled_by: 'words',
}

function shown(of: Conversation | null, started = of !== null): string {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } })
  client.setQueryData(resourceKeys.agents, [{ id: 'agent_1', name: 'Reviewer' }])
  client.setQueryData(resourceKeys.projects, [{ id: 'proj_1', name: 'Mill' }])
  client.setQueryData(resourceKeys.layouts, [
    { name: 'lamella', description: 'Kept cached.', markers: 'planner' },
    { name: 'onyx', description: 'As Onyx does.', markers: 'off' },
  ])
  client.setQueryData(resourceKeys.systemPrompts, [{ version: 3 }, { version: 1 }, { version: 0 }])
  return renderToStaticMarkup(
    <QueryClientProvider client={client}>
      <ChoiceLine conversation={of} started={started} />
    </QueryClientProvider>,
  )
}

const chosen = (html: string) => Array.from(html.matchAll(/role="combobox".*?<span[^>]*>([^<]*)/g), (match) => match[1])

describe('the line over the composer', () => {
  it('shows what is in force in a conversation, also what was removed since', () => {
    const html = shown(conversation)
    expect(chosen(html)).toEqual(['Reviewer', 'removed', '6000'])
    expect(html).toContain('Context: onyx')
  })

  it('shows what a new conversation would begin with', () => {
    expect(chosen(shown(null))).toEqual(['none', 'none', 'as usual'])
  })

  it('offers the newest system prompt to a conversation with an older one', () => {
    expect(shown(conversation)).toMatch(/System prompt 1<button[^>]*>use 3/)
    expect(shown({ ...conversation, system_prompt_version: 3 })).not.toContain('prompt-older')
  })

  it('keeps its place while the conversation is loading', () => {
    expect(shown(null, true)).not.toContain('combobox')
  })

  it('gives every choice a name', () => {
    const html = renderToStaticMarkup(<Pick label="Agent" name="agent" value={null} none="none" options={[]} onChange={() => undefined} />)
    expect(html).toMatch(/^<span[^>]*><span id="(\w+)">Agent<\/span><button[^>]* aria-labelledby="\1"/)
  })
})
