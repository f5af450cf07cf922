import { renderToStaticMarkup } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import type { RequestMap, Segment } from '../api.ts'
import { usage } from '../example.test-data.ts'
import { withSteadyIds } from './PreviewDrawer.tsx'
import { RequestDetails } from './RequestDetails.tsx'

const segment: Segment = {
  id: 'seg_1',
  kind: 'agent',
  zone: 'fixed',
  lifetime: 'session',
  source: 'agent_1',
  owner: 'agent',
  label: 'Reviewer',
  letters: 'CA',
  tokens: 1200,
  measured: true,
  read: 900,
  written: 200,
  fresh: 100,
  blocks: 1,
  markers: [{ ttl: '5m', why: 'end of FIXED' }],
  text_preview: 'Name every weakness.',
}
const map: RequestMap = {
  id: 'req_1',
  object: 'request',
  turn_id: 'turn_1',
  run_id: 'run_1',
  step: 0,
  purpose: 'chat',
  thinking_effort: 'off',
  at: '2026-11-21T12:00:00Z',
  error: null,
  provider_request_id: null,
  dropped_thinking: 0,
  answer_id: null,
  diagnosis: null,
  expired: null,
  why: null,
  letters: 'S CA U1',
  model: 'model-a',
  layout: 'lamella',
  marker_policy: 'planner',
  budget: 8000,
  estimate: 1180,
  usage,
  cost: 0.01,
  predicted: { read: 900, written: 200 },
  segments: [segment, { ...segment, id: 'seg_2', letters: 'U1', label: 'Question 1', measured: false, markers: [] }],
  notes: [{ segment: 'seg_2', text: 'model-a sees no pictures: a text stands in its place.' }],
  absent: [{ kind: 'project', why: 'the conversation belongs to no project' }],
}
const shown = (of: RequestMap) => renderToStaticMarkup(<RequestDetails map={of} />)
const text = (html: string) => html.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')

describe('the report of a request', () => {
  it('names order, zone, owner, source, tokens and markers of every segment', () => {
    const said = text(shown(map))
    expect(said).toContain('S CA U1')
    expect(said).toContain('CA Reviewer agent Fixed 1,200 900 200 100 5m agent agent_1')
  })

  it('marks what is an estimate, and only that', () => {
    const said = text(shown(map))
    expect(said).toContain('≈ 1,200')
    expect(said.match(/≈ 1,200/g)).toHaveLength(1)
    expect(said).toContain('≈ is an estimate, counted on this machine.')
  })

  it('says what is noted of a segment, and what is absent and why', () => {
    const said = text(shown(map))
    expect(said).toContain('Question 1: model-a sees no pictures')
    expect(said).toContain('Not in this request project the conversation belongs to no project')
  })

  it('of one that was not sent shows no bill', () => {
    const html = shown({ ...map, id: null, usage: null, cost: null })
    expect(html).not.toContain('Billed')
    expect(html).not.toContain('not yet')
    expect(html).not.toContain('raw-link')
    expect(shown(map)).toContain('/api/v1/requests/req_1/raw')
  })
})

it('keeps the ids of a preview, whose turn is another one each time', () => {
  const preview = (turn: string): RequestMap => ({
    ...map,
    segments: [segment, { ...segment, id: `${turn}/user`, kind: 'user' }],
    notes: [{ segment: `${turn}/user`, text: 'Cut.' }],
  })
  expect(withSteadyIds(preview('turn_1'))).toEqual(withSteadyIds(preview('turn_2')))
  expect(withSteadyIds(preview('turn_1')).segments.map(({ id }) => id)).toEqual(['seg_1', 'unsent/user'])
})
