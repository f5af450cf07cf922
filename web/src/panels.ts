/** The one side panel of a chat: what it shows, and where the focus goes back to. */

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

/** The sessions of the conversation. */
export interface SessionsPanel {
  kind: 'sessions'
}

export type PanelContent = Passage | ContextPanel | PreviewPanel | SessionsPanel

export interface Panels {
  show: (content: PanelContent) => void
  close: () => void
}

const nothing = () => undefined

export const PanelContext = createContext<Panels>({ show: nothing, close: nothing })

export const usePanels = () => useContext(PanelContext)

/** One panel at a time; closing it gives the focus back to what opened it. */
export function usePanel(conversation: string | null) {
  const [panel, setPanel] = useState<PanelContent | null>(null)
  const opener = useRef<HTMLElement | null>(null)
  const panels = useMemo(
    () => ({
      show: (content: PanelContent) => {
        const active = document.activeElement
        if (active instanceof HTMLElement && !active.closest('[data-side-panel]')) opener.current = active
        setPanel(content)
      },
      close: () => {
        setPanel(null)
        opener.current?.focus()
      },
    }),
    [],
  )
  useEffect(() => setPanel(null), [conversation])
  return { panel, panels }
}
