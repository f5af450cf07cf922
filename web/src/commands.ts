/** Slash commands: what is one, which ones a beginning may become, and where their answers and sessions stand. */

import type { ShownTurn } from './turn.ts'
import type { CommandKind, Session, Notice } from './api.ts'
import { tokens } from './format.ts'

/** Whether a message is a command; a path such as /etc/hosts is none, nor is what begins with two slashes. */
export function isCommand(text: string): boolean {
  return /^\s*\/[a-z]+(\s|$)/i.test(text)
}

/** The commands that what is typed may become. */
export function completions(text: string, commands: CommandKind[]): CommandKind[] {
  if (!/^\/[a-z]*$/i.test(text)) return []
  const typed = text.slice(1).toLowerCase()
  return commands.filter((command) => command.name.startsWith(typed))
}

/** What stands in the box once a command is chosen: with room for its argument, if it takes one. */
export function completed(command: CommandKind): string {
  return `/${command.name}${command.usage.includes('[') ? ' ' : ''}`
}

export interface Beside {
  /** The sessions that began behind a turn. */
  began: Session[]
  told: Notice[]
}

/** What stands behind each turn, by its id; "" is before the first. A resumed session began where it once did. */
export function beside(told: Notice[], sessions: Session[]): Map<string, Beside> {
  const found = new Map<string, Beside>()
  const at = (turn: string | null) => {
    const known = found.get(turn ?? '') ?? { began: [], told: [] }
    found.set(turn ?? '', known)
    return known
  }
  for (const session of sessions) if (session.number > 1) at(session.begins_after).began.push(session)
  for (const one of told) at(one.turn_id).told.push(one)
  return found
}

/** The turns that a compaction left as they are: behind what it summarised, and begun before it ended. */
export function keptBy(session: Session, turns: ShownTurn[]): ShownTurn[] {
  const last = turns.findIndex((turn) => turn.id === session.begins_after)
  if (last < 0) return []
  return turns.slice(last + 1).filter((turn) => Date.parse(turn.started_at) < Date.parse(session.opened_at))
}

/** What a session is said to have begun by. */
export function openedBy(session: Session): string {
  const said: Record<string, string> = { created: 'the first', new: 'begun anew', compaction: 'compacted', resume: 'resumed' }
  return said[session.opened_by] ?? session.opened_by
}

/** `4 messages · 3.3k → 1.2k · 57k tokens read for its summary`; what its chat read is not among them. */
export function figuresOf(session: Session): string {
  const { before, after } = session.numbers
  const read = session.usage.summary?.input ?? 0
  return [
    session.messages === 1 ? '1 message' : `${session.messages} messages`,
    ...(before !== undefined && after !== undefined ? [`${tokens(before)} → ${tokens(after)}`] : []),
    ...(read > 0 ? [`${tokens(read)} tokens read for its summary`] : []),
  ].join(' · ')
}

/** What was told while a session was open: its prunings and compactions. */
export function eventsOf(session: Session, told: Notice[]): Notice[] {
  const from = Date.parse(session.opened_at)
  const to = session.closed_at ? Date.parse(session.closed_at) : Infinity
  return told.filter((one) => one.object === 'notification' && Date.parse(one.at) >= from && Date.parse(one.at) < to)
}
