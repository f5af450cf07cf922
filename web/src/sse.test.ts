import { describe, expect, it } from 'vitest'
import { EventParser, readEvents, type ServerEvent } from './sse.ts'

const STREAM =
  '\uFEFF: hello\n\nid: 1\ndata: {"type":"turn.started"}\n\n' +
  'id: 2\r\nevent: packet\r\ndata: {"text":"Grüße, 世界 🙂"}\r\n\r\n' +
  ': alive\n\nid: 3\ndata: one\ndata:two\ndata\n\nid: 4\r\rdata: five\r\r' +
  'retry: 100\nunknown: field\ndata: six\n\n'

const EVENTS: ServerEvent[] = [
  { id: '1', event: 'message', data: '{"type":"turn.started"}' },
  { id: '2', event: 'packet', data: '{"text":"Grüße, 世界 🙂"}' },
  { id: '3', event: 'message', data: 'one\ntwo\n' },
  { id: '4', event: 'message', data: 'five' },
  { id: '4', event: 'message', data: 'six' },
]

function parse(...chunks: string[]): ServerEvent[] {
  const parser = new EventParser()
  return chunks.flatMap((chunk) => parser.push(chunk))
}

async function read(...chunks: Uint8Array[]): Promise<ServerEvent[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })
  const events: ServerEvent[] = []
  for await (const event of readEvents(body)) events.push(event)
  return events
}

describe('the reader of server-sent events', () => {
  it('reads a whole stream', () => {
    expect(parse(STREAM)).toEqual(EVENTS)
  })

  it('reads the same from every pair of chunks', () => {
    for (let cut = 0; cut <= STREAM.length; cut += 1) {
      expect(parse(STREAM.slice(0, cut), STREAM.slice(cut)), `cut at ${cut}`).toEqual(EVENTS)
    }
  })

  it('reads the same from chunks of every size', () => {
    for (let size = 1; size < 20; size += 1) {
      const chunks = Array.from({ length: Math.ceil(STREAM.length / size) }, (_, at) =>
        STREAM.slice(at * size, (at + 1) * size),
      )
      expect(parse(...chunks), `size ${size}`).toEqual(EVENTS)
    }
  })

  it('reads the same when a character is cut into its bytes', async () => {
    const bytes = new TextEncoder().encode(STREAM)
    const single = Array.from(bytes, (byte) => new Uint8Array([byte]))
    expect(await read(...single)).toEqual(EVENTS)
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(await read(bytes.slice(0, cut), bytes.slice(cut))).toEqual(EVENTS)
    }
  })

  it('keeps an unfinished event to itself', () => {
    expect(parse('id: 1\ndata: half')).toEqual([])
    expect(parse('id: 1\ndata: half\n')).toEqual([])
    expect(parse('data: first\n\ndata: half\n').map((event) => event.data)).toEqual(['first'])
  })

  it('says that something arrived, also for a comment', async () => {
    let seen = 0
    const body = new Response(': alive\n\n').body!
    for await (const _ of readEvents(body, () => (seen += 1))) throw new Error('a comment is no event')
    expect(seen).toBe(1)
  })
})
