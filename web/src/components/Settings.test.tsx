import type { Agent, KnowledgeBase, Layout, Project, SystemPrompt } from '../objects.ts'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import { accessKeys } from '../access.ts'
import { fullMoment } from '../format.ts'
import { knowledgeKeys } from '../knowledge.ts'
import { resourceKeys } from '../resourceQueries.ts'
import { Field } from './Field.tsx'
import Admin from './Admin.tsx'
import Agents from './AgentSettings.tsx'
import Projects from './ProjectSettings.tsx'

const moments = { created_at: '2026-11-21T12:00:00Z', updated_at: '2026-11-21T12:00:00Z', revision: 1 }
const agent: Agent = {
  ...moments,
  id: 'agent_1',
  object: 'agent',
  name: 'Reviewer',
  prompt: 'Name every weakness.',
  reminder: 'Worst first.',
  replaces_system: true,
  tools: ['search'],
  model: 'model-gone',
  layout: 'onyx',
  fallback_model: null,
  thinking_effort: null,
}
const project: Project = {
  ...moments,
  id: 'proj_1',
  object: 'project',
  name: 'Mill',
  instructions: 'It stands in Augsburg.',
  tokens: 1200,
  files: [
    { id: 'file_1', name: 'manual.pdf', media_type: 'application/pdf', tokens: 1200, status: 'ready' },
    { id: 'file_2', name: 'scan.pdf', media_type: 'application/pdf', tokens: 0, status: 'failed' },
  ],
}
const base: KnowledgeBase = { id: 'kb_1', name: 'Prices', description: '', visible: false, level: 'full', is_owner: true, object: 'knowledge_base', owner_id: 'user_1', ...moments }
const prompts: SystemPrompt[] = [
  { object: 'system_prompt', version: 2, text: 'Be brief.', note: 'Shorter', shipped: false, created_at: '2026-11-21T12:00:00Z' },
  { object: 'system_prompt', version: 0, text: 'Be helpful.', note: '', shipped: true, created_at: null },
]
const layouts: Layout[] = [{ object: 'layout', name: 'onyx', description: 'As Onyx does.', markers: 'off', slots: [], old_results: 'keep' }]

/** The page over a server that has the things above. */
function shown(content: ReactNode): string {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } })
  client.setQueryData(resourceKeys.agents, [agent])
  client.setQueryData(knowledgeKeys.bound(agent.id), ['kb_1'])
  client.setQueryData(accessKeys.bases, [base])
  client.setQueryData(resourceKeys.projects, [project])
  client.setQueryData(resourceKeys.systemPrompts, prompts)
  client.setQueryData(resourceKeys.layouts, layouts)
  return renderToStaticMarkup(<QueryClientProvider client={client}>{content}</QueryClientProvider>)
}

const text = (html: string) => html.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')

describe('the settings', () => {
  it('list what there is and offer a new one', () => {
    const html = shown(<Agents id={null} />)
    expect(text(html)).toContain('Reviewer')
    expect(text(html)).toContain('layout onyx · in place of the system prompt · Name every weakness.')
    expect(html).toContain('data-testid="agent-new"')
    expect(html).toContain('href="/agents/agent_1"')
  })

  it('open an agent with all that it holds, also what the server no longer has', () => {
    const html = shown(<Agents id="agent_1" />)
    expect(html).toContain('value="Reviewer"')
    expect(html).toContain('Name every weakness.</textarea>')
    expect(html).toMatch(/name="replaces_system"[^>]*checked/)
    expect(html).toContain('value="search"')
    expect(text(html)).toMatch(/Model model-gone/)
    expect(text(html)).toContain('As Onyx does.')
  })

  it('say that something was removed meanwhile', () => {
    expect(text(shown(<Agents id="agent_9" />))).toContain('This agent was removed.')
    expect(text(shown(<Projects id="proj_9" />))).toContain('This project was removed.')
  })

  it('show the files of a project with tokens, and why one is left out', () => {
    const html = text(shown(<Projects id="proj_1" />))
    expect(html).toContain('manual.pdf 1,200 tokens')
    expect(html).toContain('scan.pdf It could not be read. left out')
    expect(html).toContain('1,200 tokens together.')
  })

  it('show the versions of the system prompt and the way back to each but the newest', () => {
    const html = shown(<Admin part={null} />)
    expect(html).toContain('Be brief.</textarea>')
    expect(text(html)).toContain(`Version 2 ${fullMoment('2026-11-21T12:00:00Z')} · Shorter in use`)
    expect(text(html)).toContain('As shipped')
    expect(html.match(/data-testid="prompt-back"/g)).toHaveLength(1)
  })
})

it('says what is wrong with a field where it is, and for everybody', () => {
  const problem = { message: 'A name is missing.', hint: 'Give one.' }
  const html = renderToStaticMarkup(
    <Field label="Name" hint="At most 80 characters." problem={problem}>
      {(control) => <input {...control} />}
    </Field>,
  )
  const id = /<input id="([^"]+)"/.exec(html)?.[1]
  expect(html).toContain(`for="${id}"`)
  expect(html).toContain(`aria-describedby="${id}-problem ${id}-hint" aria-invalid="true"`)
  expect(text(html)).toContain('A name is missing. Give one. At most 80 characters.')
})
