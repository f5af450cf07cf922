/** Forms that hold something unsaved: leaving their page asks first. */

import { createContext, useCallback, useContext, useEffect, useState } from 'react'
import { guardPage } from './route.ts'

/** What the question needs: how to stay, and how to leave. */
export interface Leaving {
  stay: () => void
  giveUp: () => void
}

const AskContext = createContext<(leave: () => void) => void>((leave) => leave())

export const LeavingContext = AskContext.Provider

/** The question that is open, if one is; `ask` opens it. */
export function useQuestion(): { ask: (leave: () => void) => void; leaving: Leaving | null } {
  const [leave, setLeave] = useState<(() => void) | null>(null)
  const stay = () => setLeave(null)
  const giveUp = () => {
    guardPage(null)
    setLeave(null)
    leave?.()
  }
  const ask = useCallback((next: () => void) => setLeave(() => next), [])
  return { ask, leaving: leave && { stay, giveUp } }
}

/** Ask before the page is left while `unsaved`; the answer lets the page go. */
export function useUnsaved(unsaved: boolean): () => void {
  const ask = useContext(AskContext)
  useEffect(() => {
    if (!unsaved) return
    guardPage(ask)
    const onLeave = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', onLeave)
    return () => {
      guardPage(null)
      removeEventListener('beforeunload', onLeave)
    }
  }, [unsaved, ask])
  return () => guardPage(null)
}

/** For a form: `release` lets its page go, `leave` does `onDone` too. */
export function useLeaving(dirty: boolean, onDone: () => void) {
  const release = useUnsaved(dirty)
  const leave = () => {
    release()
    onDone()
  }
  return { release, leave }
}
