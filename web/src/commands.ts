/** Slash commands: what is one, which ones a beginning may become, and where their answers and sessions stand. */

import type { CommandKind, Session, Told } from './api.ts'

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

/** Whether a compaction was asked for and nothing was told of its end. */
export function awaitsCompaction(told: Told[]): boolean {
  const asked = told.findLastIndex((one) => one.object === 'command' && one.name === 'compact' && one.data.started === true)
  return asked >= 0 && !told.slice(asked + 1).some((one) => one.object === 'notification' && one.name !== 'pruned')
}

export interface Beside {
  /** The sessions that began behind a turn. */
  began: Session[]
  told: Told[]
}

/** What stands behind each turn, by its id; "" is before the first. A resumed session began where it once did. */
export function beside(told: Told[], sessions: Session[]): Map<string, Beside> {
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
