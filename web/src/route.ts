/**
 * The addresses of the page. `/` is a new conversation, `/c/ID` an existing one; the other pages are listed in `App`.
 *
 * A form that holds something unsaved guards its page: a link, a key and the browser's Back ask before they leave it.
 */

import type { MouseEvent } from 'react'
import { navigate, usePathname } from 'wouter/use-browser-location'

export function conversationIn(path: string): string | null {
  return /^\/c\/([\w-]+)\/?$/.exec(path)?.[1] ?? null
}

export function pathOf(conversation: string | null): string {
  return conversation === null ? '/' : `/c/${conversation}`
}

/** The line in a path: null for the list of all, undefined for the path of anything else. */
export function lineIn(path: string): string | null | undefined {
  const found = /^\/clients(?:\/([\w-]+))?\/?$/.exec(path)
  return found ? (found[1] ?? null) : undefined
}

export function pathOfLine(line: string | null): string {
  return line === null ? '/clients' : `/clients/${line}`
}

type Guard = (leave: () => void) => void

let guard: Guard | null = null
let here = ''

/** Ask `guard` before the address changes; null lets it change again. */
export function guardPage(asks: Guard | null): void {
  guard = asks
}

/** Go there without loading the page again. */
export function goTo(path: string, replace = false): void {
  const leave = () => {
    if (path !== location.pathname + location.search) navigate(path, { replace })
    here = location.href
  }
  if (guard) guard(leave)
  else leave()
}

/** Go to a conversation, or to a new one. */
export const go = (conversation: string | null, replace = false) => goTo(pathOf(conversation), replace)

/** Go to the clients, or to one of their lines. */
export const goToLine = (line: string | null, replace = false) => goTo(pathOfLine(line), replace)

/** Let a guard stop the browser's Back too. Called before the page renders, so that it hears of it before the router. */
export function guardBack(): void {
  here = location.href
  addEventListener('popstate', (event) => {
    const { pathname, search } = location
    if (guard === null) {
      here = location.href
      return
    }
    event.stopImmediatePropagation()
    // The address has changed already: it is put back until the question is answered.
    history.pushState(null, '', here)
    goTo(pathname + search)
  })
}

export function useConversationId(): string | null {
  return conversationIn(usePathname())
}

export function useLineId(): string | null | undefined {
  return lineIn(usePathname())
}

/** What a link within the page does on a click: a plain one is followed without loading the page again. */
export function follow(path: string, then?: () => void) {
  return (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return
    event.preventDefault()
    goTo(path)
    then?.()
  }
}
