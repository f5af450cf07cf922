import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it } from 'vitest'
import type { Line } from '../api.ts'
import { line } from '../example.test-data.ts'
import { LineList } from './LineList.tsx'
import { FirstDifference } from './FirstDifference.tsx'

const text = (html: string) => html.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ').trim()
const said = (...lines: Line[]) => text(renderToStaticMarkup(<LineList lines={lines} />))

it('names client, session, figures and cost of a line', () => {
  expect(said(line)).toContain('Claude Code 9.9 session session-1')
  expect(said(line)).toContain('Hello there Turns 3 Tokens 1k From cache 92 % Breaks none Cost $0.0300')
})

it('says what breaks cost, and what added markers saved, if they saved anything', () => {
  expect(said({ ...line, breaks: 2, lost_cost: 0.1177, saved: 0.02 })).toContain('Breaks 2 ($0.1177) Cost $0.0300 Markers saved $0.0200')
  expect(said({ ...line, saved: -0.02 })).not.toContain('Markers saved')
})

it('says how often Lamella made the history shorter, and what that saved', () => {
  expect(said({ ...line, compactions: 9, context_saved: 0.36 })).toContain('Compactions here 9 (saved $0.3600)')
  expect(said(line)).not.toContain('Compactions')
})

it('says so if nothing was billed', () => {
  expect(said({ ...line, usage: null, cost: 0 })).toContain('Tokens 0 From cache not billed Breaks none Cost $0')
})

it('marks sums of which a part is estimated', () => {
  const usage = { ...line.usage!, estimated: true, input_estimated: true }
  expect(said({ ...line, usage })).toContain('Tokens ≈ 1k From cache 92 % Breaks none Cost ≈ $0.0300')
  expect(said({ ...line, usage: { ...usage, input_estimated: false } })).toContain('Tokens 1k From cache 92 % Breaks none Cost ≈ $0.0300')
})

it('says that a client loops, and that it has stopped', () => {
  const alarm = {
    kind: 'compacted' as const,
    text: 'This client loops: it compacted 7 times.',
    times: 7,
    requests: 14,
    cost: 0.1,
    refused: 0,
    since: line.at,
    at: line.at,
    active: true,
  }
  expect(renderToStaticMarkup(<LineList lines={[{ ...line, alarm }]} />)).toContain('role="alert"')
  expect(said({ ...line, alarm })).toContain('it compacted 7 times.')
  expect(said({ ...line, alarm: { ...alarm, active: false } })).toContain('it compacted 7 times. It stopped')
})

it('labels a side call', () => {
  const html = renderToStaticMarkup(<LineList lines={[{ ...line, id: 'conv_2', label: 'title' }, line]} />)
  expect(html.match(/data-side="true"/g)).toHaveLength(1)
  expect(text(html)).toContain('title Hello there')
  expect(html).toContain('href="/clients/conv_2"')
})

it('names the agent that answers, which is no side call', () => {
  const html = renderToStaticMarkup(<LineList lines={[{ ...line, label: 'agent:Pilot' }]} />)
  expect(html).not.toContain('data-side="true"')
  expect(text(html)).toContain('agent:Pilot Hello there')
})

it('shows what stood there and what stands there now', () => {
  const difference = {
    segment: 'tools',
    label: 'Tools',
    kind: 'tools',
    owner: 'client',
    now: 'tools',
    block: 1,
    byte: 1141,
    span: 1,
    before: 'by <Ann> at noon',
    after: 'by <Bob> at noon',
    reordered: false,
    after_cached_prefix: false,
  }
  const html = renderToStaticMarkup(<FirstDifference difference={difference} />)
  expect(html).toContain('by &lt;<mark>Ann</mark>&gt; at noon')
  expect(html).toContain('by &lt;<mark>Bob</mark>&gt; at noon')
  expect(text(renderToStaticMarkup(<FirstDifference difference={{ ...difference, after: '' }} />))).toContain('Now nothing at this place')
  expect(renderToStaticMarkup(<FirstDifference difference={{ ...difference, before: '', after: '' }} />)).toBe('')
})
