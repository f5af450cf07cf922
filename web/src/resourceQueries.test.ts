import { afterEach, describe, expect, it, vi } from 'vitest'
import { valueOf } from './components/AgentForm.tsx'
import { saveAgent } from './resourceQueries.ts'

afterEach(() => vi.unstubAllGlobals())

describe('saving an agent with its bases', () => {
  it('makes one agent, also where its bases can be bound only at the second time', async () => {
    const asked: string[] = []
    const answers = (path: string, init: RequestInit) => {
      asked.push(`${init.method} ${path}`)
      const refused = path.endsWith('/knowledge-bases') && asked.length === 2
      const body = refused ? { error: { type: 'not_found', message: 'It is gone.' } } : { id: 'agent_1' }
      return Promise.resolve(new Response(JSON.stringify(body), { status: refused ? 404 : 200 }))
    }
    vi.stubGlobal('fetch', answers)
    const change = { value: { ...valueOf(null), name: 'Reviewer', prompt: 'Look.' }, bases: ['kb_1'] }
    const there = { current: null }
    await expect(saveAgent(there, change)).rejects.toThrow()
    await saveAgent(there, change)
    expect(asked).toEqual([
      'POST /api/v1/agents',
      'PUT /api/v1/agents/agent_1/knowledge-bases',
      'PATCH /api/v1/agents/agent_1',
      'PUT /api/v1/agents/agent_1/knowledge-bases',
    ])
  })
})
