/** Reads server-sent events from bytes, however they were cut into chunks. */

export interface ServerEvent {
  id: string | null
  event: string
  data: string
}

/** Takes text as it arrives and gives back the events that it completes. */
export class EventParser {
  #rest = ''
  #data: string[] = []
  #event = ''
  #id: string | null = null
  #first = true

  push(chunk: string): ServerEvent[] {
    if (chunk === '') return []
    this.#rest += chunk
    if (this.#first) {
      this.#first = false
      if (this.#rest.startsWith('\uFEFF')) this.#rest = this.#rest.slice(1)
    }
    const events: ServerEvent[] = []
    for (;;) {
      const end = this.#rest.search(/[\r\n]/)
      // A line that ends with \r at the end of a chunk may still get its \n: wait for the next character.
      if (end < 0 || (this.#rest[end] === '\r' && end + 1 === this.#rest.length)) return events
      const line = this.#rest.slice(0, end)
      const width = this.#rest.startsWith('\r\n', end) ? 2 : 1
      this.#rest = this.#rest.slice(end + width)
      const event = this.#line(line)
      if (event) events.push(event)
    }
  }

  #line(line: string): ServerEvent | null {
    if (line === '') {
      const event = { id: this.#id, event: this.#event || 'message', data: this.#data.join('\n') }
      const complete = this.#data.length > 0
      this.#data = []
      this.#event = ''
      return complete ? event : null
    }
    const colon = line.indexOf(':')
    if (colon === 0) return null // a comment: the server says that it is alive
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') this.#data.push(value)
    else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.#id = value
    return null
  }
}

/** The events of a response body. `alive` is called for every chunk, so that a silent connection can be noticed. */
export async function* readEvents(body: ReadableStream<Uint8Array>, alive?: () => void): AsyncGenerator<ServerEvent> {
  const parser = new EventParser()
  const decoder = new TextDecoder()
  const reader = body.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      alive?.()
      yield* parser.push(decoder.decode(value, { stream: true }))
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
