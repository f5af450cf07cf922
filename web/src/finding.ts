/** The message that a search found and the reader wants to see: which one it is, and where in it the passage stands. */

import { useSyncExternalStore } from 'react'
import type { SearchHit } from './api.ts'

export type Place = Pick<SearchHit, 'conversation_id' | 'turn_id' | 'call_id' | 'role' | 'snippet'>

let place: Place | null = null
const listeners = new Set<() => void>()

/** Show a passage, or none any more. A passage that is asked for again is shown again. */
export function find(wanted: Place | null): void {
  place = wanted && { ...wanted }
  mark([])
  for (const listener of listeners) listener()
}

/** Another conversation was opened: what was to be shown of this one is not any more. */
export function left(conversation: string | null): void {
  if (place !== null && place.conversation_id !== conversation) find(null)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** What is to be shown of a conversation. */
export function usePlace(conversation: string | null): Place | null {
  return useSyncExternalStore(subscribe, () => (place?.conversation_id === conversation ? place : null))
}

/** Whether a call is where the passage stands: its result is opened, and shown whole. */
export function useIsFound(call: string): boolean {
  return useSyncExternalStore(subscribe, () => place?.call_id === call)
}

/** What a passage stands in, if that is on the page: the card of a call, a question, or an answer. */
export function elementOf({ turn_id: turn, call_id: call, role }: Place): Element | null {
  const item = document.querySelector(`[data-turn="${CSS.escape(turn)}"]`)
  const part = role === 'user' ? 'message-user' : 'message-assistant'
  const message = item?.querySelector(`[data-testid=${part}]`) ?? null
  return (call && message?.querySelector(`[data-call="${CSS.escape(call)}"]`)) || message
}

/** Letters around a mark that are looked for, from a sentence down to the word alone. */
const AROUND = [200, 60, 20, 0]

interface Letters {
  text: string
  /** Where each of them stands. */
  at: { node: Text; offset: number }[]
}

/**
 * Where a snippet stands in an element: the ranges of its marks, the first of them first; of one without marks its
 * lines. Only letters and digits are compared: Markdown took the rest. None if nothing of it is there.
 */
export function rangesOf(element: Element, { text, marks }: Place['snippet']): Range[] {
  const shown = lettersIn(element)
  // Markdown also takes the numbers of lists and the addresses of links.
  const unwritten = text.replace(UNSHOWN, (part) => ' '.repeat([...part].length))
  const wanted = [lettersWith(text, marks), lettersWith(unwritten, marks)]
  for (const around of AROUND) {
    for (const { letters, spans } of wanted) {
      for (const { from, to } of spans) {
        const begin = Math.max(0, from - around)
        const end = Math.min(letters.length, Math.min(to, from + 200) + around)
        const found = begin < end ? shown.text.indexOf(letters.slice(begin, end)) : -1
        if (found < 0) continue
        const shift = found - begin
        const here = spans.filter((span) => span.from >= begin && span.from < end)
        return here.map((span) => rangeOf(shown, span.from + shift, Math.min(span.to, end) + shift))
      }
    }
  }
  return []
}

/** The letters of a snippet, and from which to which of them its marks go. */
function lettersWith(text: string, marks: Place['snippet']['marks']) {
  const points = [...text]
  const lettersOf = (part: string) => (part.match(LETTER) ?? []).join('')
  const before = (point: number) => lettersOf(points.slice(0, point).join('')).length
  const spans = (marks.length > 0 ? marks : lines(points)).map(({ start, end }) => ({ from: before(start), to: before(end) }))
  return { letters: lettersOf(text), spans: spans.filter(({ from, to }) => from < to) }
}

function lines(points: string[]): { start: number; end: number }[] {
  const ends = [...points.flatMap((point, at) => (point === '\n' ? [at] : [])), points.length]
  return ends.map((end, at) => ({ start: (ends[at - 1] ?? -1) + 1, end }))
}

const UNSHOWN = /^\s*\d+[.)](?=\s)|\]\([^)\s]*\)/gm
const LETTER = /[\p{L}\p{N}]/gu

/** By UTF-16 units, as texts are compared. Of a formula its TeX counts, which is there for screen readers; nothing folded. */
function lettersIn(element: Element): Letters {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT, ({ parentElement: parent }) => {
    const drawn = parent?.closest('.katex') && parent.localName !== 'annotation'
    const folded = parent?.closest('details') !== element.closest('details')
    return drawn || folded ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT
  })
  const letters: Letters = { text: '', at: [] }
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    for (const { 0: letter, index } of node.data.matchAll(LETTER)) {
      letters.text += letter
      for (let unit = 0; unit < letter.length; unit += 1) letters.at.push({ node, offset: index + unit })
    }
  }
  return letters
}

function rangeOf({ at }: Letters, from: number, to: number): Range {
  const range = document.createRange()
  const last = at[Math.max(from, to - 1)]!
  range.setStart(at[from]!.node, at[from]!.offset)
  range.setEnd(last.node, last.offset + 1)
  return range
}

/** Bring a range into view within what scrolls inside a message, such as a long result of a tool or a wide line of code. */
export function revealInside(range: Range): void {
  for (let box = range.startContainer.parentElement; box?.localName === 'pre' || box?.closest('pre'); box = box.parentElement) {
    const place = range.getBoundingClientRect()
    const { top, left, right } = box.getBoundingClientRect()
    if (box.scrollHeight > box.clientHeight) box.scrollTop += place.top - top - box.clientHeight / 3
    if (place.right > right || place.left < left) box.scrollLeft += place.left - left - box.clientWidth / 3
  }
}

/** Mark ranges on the page, in place of those before. A browser that can't shows none. */
export function mark(ranges: Range[]): void {
  if (typeof Highlight === 'undefined') return
  if (ranges.length > 0) CSS.highlights.set('found', new Highlight(...ranges))
  else CSS.highlights.delete('found')
}
