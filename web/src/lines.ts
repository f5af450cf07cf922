/** Lines: the conversations of other programs that go through this server. Their list, their groups, what changed. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { ApiError, api, type Line, type Recorded } from './api.ts'
import { keys, next } from './queries.ts'
import { readEvents } from './sse.ts'

/** Milliseconds until a connection that ended is opened again. */
const PAUSE = 2000
/** Milliseconds in which records are gathered, so that a busy client causes one refresh and not ten. */
const GATHER = 300

export const useLines = () =>
  useInfiniteQuery({
    queryKey: keys.lines,
    queryFn: ({ pageParam }) => api.lines(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: next,
  })

export const useLine = (id: string) => useQuery({ queryKey: keys.line(id), queryFn: () => api.line(id) })

/** Why a request read what it read. It does not change, so it is loaded once, when its row is seen. */
export const useWhy = (request: string, seen: boolean) =>
  useQuery({ queryKey: ['why', request], queryFn: () => api.why(request), enabled: seen, staleTime: Infinity })

/** The first difference between a request and the one before. */
export const useDiff = (request: string | null) =>
  useQuery({ queryKey: ['diff', request], queryFn: () => api.diff(request!), enabled: request !== null, staleTime: Infinity })

/** Refresh what a record changes, as long as the component is shown. Connects again if the connection ends. */
export function useLive(): void {
  const client = useQueryClient()
  useEffect(() => {
    const leaving = new AbortController()
    const changed = new Map<string, readonly unknown[]>()
    let timer: ReturnType<typeof setTimeout> | undefined
    const flush = () => {
      timer = undefined
      for (const queryKey of changed.values()) void client.invalidateQueries({ queryKey })
      changed.clear()
    }
    const refresh = (...queryKeys: (readonly unknown[])[]) => {
      for (const key of queryKeys) changed.set(JSON.stringify(key), key)
      timer ??= setTimeout(flush, GATHER)
    }
    const onOpen = () => refresh(keys.lines, keys.everyLine)
    const onRecord = ({ line, request }: Recorded) =>
      refresh(keys.lines, keys.line(line.id), keys.turns(line.id), keys.requests(request.turn_id))
    void follow(leaving.signal, onOpen, onRecord)
    return () => {
      leaving.abort()
      clearTimeout(timer)
    }
  }, [client])
}

async function follow(signal: AbortSignal, onOpen: () => void, onRecord: (record: Recorded) => void): Promise<void> {
  while (!signal.aborted) {
    try {
      const answer = await api.liveLines(signal)
      onOpen()
      for await (const { data } of readEvents(answer.body!)) onRecord(JSON.parse(data) as Recorded)
    } catch (error) {
      // Refused: trying again would be refused, too.
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) return
    }
    if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, PAUSE))
  }
}

/** The lines of one session of a client: its conversations, each followed by the side calls of the session. */
export interface LineGroup {
  key: string
  client: string
  session: string | null
  /** When the newest request came. */
  at: string
  lines: Line[]
}

/** What stands before the name of an agent in the label of its clients' conversations. */
const AGENT = 'agent:'

/** Whether the server's engine answers: an agent that the client named as its model. */
export const isOfAgent = (line: Line) => line.label.startsWith(AGENT)

export const isSideCall = (line: Line) => line.label !== 'conversation' && !isOfAgent(line)

/** Lines by session, in the order in which sessions come first. A line without a session is a group of its own. */
export function grouped(lines: readonly Line[]): LineGroup[] {
  const groups = new Map<string, LineGroup>()
  for (const line of lines) {
    const key = line.session === null ? line.id : `${line.client} ${line.session}`
    const group = groups.get(key)
    if (group) group.lines.push(line)
    else groups.set(key, { key, client: line.client, session: line.session, at: line.at, lines: [line] })
  }
  for (const group of groups.values()) group.lines.sort(byPlace)
  return [...groups.values()]
}

/** Conversations first; among both the older ones first. */
function byPlace(one: Line, other: Line): number {
  return Number(isSideCall(one)) - Number(isSideCall(other)) || one.begun_at.localeCompare(other.begun_at)
}

/** The share of the input that was read from the cache; null if nothing was billed. */
export function shareRead(line: Pick<Line, 'usage'>): number | null {
  return line.usage && line.usage.input > 0 ? line.usage.cache_read / line.usage.input : null
}

/** The base URLs of this server, as environment variables that clients read. */
export function baseUrls(origin: string): { name: string; for: string; url: string }[] {
  return [
    { name: 'ANTHROPIC_BASE_URL', for: 'Claude Code and the anthropic library', url: origin },
    { name: 'OPENAI_BASE_URL', for: 'the openai library, LangChain, aider, Open WebUI, Codex', url: `${origin}/v1` },
  ]
}

/** A text in three parts: `changed` stands between what is the same in both. */
export interface Change {
  head: string
  changed: string
  tail: string
}

/** So many equal characters say that two texts go on alike. */
const ALIKE = 4

/** Both texts around a difference. They are cut at their ends, so the part after the change may have two lengths. */
export function changes(before: string, after: string): { before: Change; after: Change } {
  const [old, now] = [[...before], [...after]]
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1
  const [left, right] = [old.slice(start), now.slice(start)]
  const [removed, added] = lengths(left, right)
  const part = (all: string[], rest: string[], changed: number): Change => ({
    head: all.slice(0, start).join(''),
    changed: rest.slice(0, changed).join(''),
    tail: rest.slice(changed).join(''),
  })
  return { before: part(old, left, removed), after: part(now, right, added) }
}

/** How much is removed and added: the least after which both go on alike, or all of it. */
function lengths(left: string[], right: string[]): [number, number] {
  for (let sum = 1; sum <= left.length + right.length; sum += 1) {
    for (let removed = Math.max(0, sum - right.length); removed <= Math.min(sum, left.length); removed += 1) {
      const added = sum - removed
      const common = Math.min(left.length - removed, right.length - added)
      if (common < ALIKE) continue
      let same = 0
      while (same < common && left[removed + same] === right[added + same]) same += 1
      if (same === common) return [removed, added]
    }
  }
  return [left.length, right.length]
}

/** Whether an element has come near the visible part of the page. */
export function useSeen(element: { current: HTMLElement | null }): boolean {
  const [seen, setSeen] = useState(false)
  useEffect(() => {
    if (!element.current) return
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) setSeen(true)
      },
      // A margin counts for the named root alone, and the turns scroll in a box of their own.
      { root: element.current.closest('[data-scroll]'), rootMargin: '400px' },
    )
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [element])
  return seen
}
