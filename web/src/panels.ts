/** The one side panel: what it shows, and where the focus goes back to. */

import { createContext, useContext, useEffect, useMemo, useRef, useState } from 'react'

export interface Passage {
  kind: 'passage'
  fileId: string | null
  url: string | null
  title: string
  document: number | null
  start: number | null
  end: number | null
  page: number | null
}

export interface ContextPanel {
  kind: 'context'
  turn: string | null
  /** The newest of the turn, if none is named. */
  request?: string
}

/** What would be sent, for the message that is being written. */
export interface PreviewPanel {
  kind: 'preview'
}

export type Section = 'agents' | 'projects' | 'system' | 'bases' | 'people' | 'keys'

/** `id` opens one agent or project, `new` the form for another. */
export interface SettingsPanel {
  kind: 'settings'
  section: Section
  id: string | null
}

/** What is open in a section: one of its things, `new`, or null for the list. */
export interface SectionProps {
  id: string | null
  onOpen: (id: string | null) => void
}

/** The sessions of the conversation. */
export interface SessionsPanel {
  kind: 'sessions'
}

export type PanelContent = Passage | ContextPanel | PreviewPanel | SettingsPanel | SessionsPanel

export interface Panels {
  show: (content: PanelContent) => void
  close: () => void
  /** Say that the panel holds something unsaved: then leaving it asks first. */
  hold: (unsaved: boolean) => void
}

const nothing = () => undefined

export const PanelContext = createContext<Panels>({ show: nothing, close: nothing, hold: nothing })

export const usePanels = () => useContext(PanelContext)

/** One panel at a time; closing it gives the focus back to what opened it. `leaving` is set while it has to be asked. */
export function usePanel(conversation: string | null) {
  const [panel, setPanel] = useState<PanelContent | null>(null)
  const [leaving, setLeaving] = useState<(() => void) | null>(null)
  const opener = useRef<HTMLElement | null>(null)
  const unsaved = useRef(false)
  const panels = useMemo(() => {
    const leave = (go: () => void) => (unsaved.current ? setLeaving(() => go) : go())
    return {
      show: (content: PanelContent) => {
        const active = document.activeElement
        leave(() => {
          if (active instanceof HTMLElement && !active.closest('[data-side-panel]')) opener.current = active
          setPanel(content)
        })
      },
      close: () =>
        leave(() => {
          setPanel(null)
          opener.current?.focus()
        }),
      hold: (is: boolean) => {
        unsaved.current = is
      },
    }
  }, [])
  // Settings belong to no conversation, and perhaps hold something half written.
  useEffect(() => setPanel((old) => (old?.kind === 'settings' ? old : null)), [conversation])
  const stay = () => setLeaving(null)
  const giveUp = () => {
    unsaved.current = false
    setLeaving(null)
    leaving?.()
  }
  return { panel, panels, leaving: leaving === null ? null : { stay, giveUp } }
}

/** Hold the panel while `unsaved`; also against closing the window. The answer lets go: what was written is done with. */
export function useUnsaved(unsaved: boolean): () => void {
  const { hold } = usePanels()
  useEffect(() => {
    if (!unsaved) return
    hold(true)
    const onLeave = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', onLeave)
    return () => {
      hold(false)
      removeEventListener('beforeunload', onLeave)
    }
  }, [unsaved, hold])
  return () => hold(false)
}

/** For a form in a panel: `release` lets the panel go, `leave` goes away from it too. */
export function useLeaving(dirty: boolean, onDone: () => void) {
  const release = useUnsaved(dirty)
  const leave = () => {
    release()
    onDone()
  }
  return { release, leave }
}
