import { describe, expect, it } from 'vitest'
import type { Line } from './api.ts'
import { line } from './example.test-data.ts'
import { baseUrls, changes, grouped, shareRead } from './lines.ts'
import { conversationIn, lineIn, pathOfLine } from './route.ts'

const told = (lines: Line[]) => grouped(lines).map((group) => group.lines.map((one) => one.id))

describe('lines by session', () => {
  const chat = { ...line, id: 'chat', session: 's1', begun_at: '2026-11-21T12:01:00Z' }
  const title = { ...line, id: 'title', session: 's1', label: 'title', begun_at: '2026-11-21T12:00:00Z' }
  const second = { ...line, id: 'second', session: 's1', begun_at: '2026-11-21T12:05:00Z' }
  const other = { ...line, id: 'other', session: 's2' }

  it('puts side calls after the conversations of their session, whatever came first', () => {
    expect(told([title, second, chat])).toEqual([['chat', 'second', 'title']])
  })

  it('keeps the order of sessions: the one with the newest request is first', () => {
    expect(told([second, other, chat])).toEqual([['chat', 'second'], ['other']])
    expect(told([other, second])).toEqual([['other'], ['second']])
    expect(grouped([{ ...second, at: '2026-11-21T13:00:00Z' }, chat])[0]!.at).toBe('2026-11-21T13:00:00Z')
  })

  it('never puts together what names no session, or another client with the same one', () => {
    const alone = (id: string) => ({ ...line, id, session: null })
    expect(told([alone('one'), alone('two')])).toEqual([['one'], ['two']])
    expect(told([chat, { ...second, client: 'aider 0.9' }])).toEqual([['chat'], ['second']])
  })
})

it('gives the share read from the cache, and none of what was not billed', () => {
  expect(shareRead(line)).toBe(0.92)
  expect(shareRead({ usage: null })).toBeNull()
  expect(shareRead({ usage: { ...line.usage!, input: 0 } })).toBeNull()
})

it('gives base URLs of the address that the page was opened at', () => {
  const urls = Object.fromEntries(baseUrls('https://box.home:8377').map(({ name, url }) => [name, url]))
  expect(urls).toEqual({ ANTHROPIC_BASE_URL: 'https://box.home:8377', OPENAI_BASE_URL: 'https://box.home:8377/v1' })
})

describe('the change between two texts', () => {
  const marked = (before: string, after: string) => {
    const found = changes(before, after)
    return [found.before, found.after].map(({ head, changed, tail }) => `${head}[${changed}]${tail}`)
  }

  it('is the words that differ', () => {
    expect(marked('Signed by Ann. The lamp', 'Signed by Bob. The lamp')).toEqual([
      'Signed by [Ann]. The lamp',
      'Signed by [Bob]. The lamp',
    ])
  })

  it('is found if one text is longer, and so is cut elsewhere', () => {
    expect(marked('Opus 4.8 (1M context) wrote th', 'Opus 4.8 wrote this and that')).toEqual([
      'Opus 4.8 [(1M context) ]wrote th',
      'Opus 4.8 []wrote this and that',
    ])
    expect(marked('at noon.', 'at high noon.')).toEqual(['at []noon.', 'at [high ]noon.'])
  })

  it('is all the rest if nothing goes on alike', () => {
    expect(marked('the same, abc', 'the same, xyz and more')).toEqual(['the same, [abc]', 'the same, [xyz and more]'])
    expect(marked('only here', '')).toEqual(['[only here]', '[]'])
  })

  it('never cuts a character in two', () => {
    expect(marked('so 😀!', 'so 😃!')).toEqual(['so [😀!]', 'so [😃!]'])
  })
})

it('knows the addresses of lines', () => {
  expect([lineIn('/clients'), lineIn('/clients/'), lineIn('/clients/conv_1')]).toEqual([null, null, 'conv_1'])
  expect([lineIn('/'), lineIn('/c/conv_1'), lineIn('/clients/a/b')]).toEqual([undefined, undefined, undefined])
  expect(conversationIn('/clients/conv_1')).toBeNull()
  expect(lineIn(pathOfLine('conv_1'))).toBe('conv_1')
})
