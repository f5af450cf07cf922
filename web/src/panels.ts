/** The one side panel: what it shows, and where the focus goes back to. */

import { createContext, useContext } from 'react'

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
}

export type PanelContent = Passage | ContextPanel

export interface Panels {
  show: (content: PanelContent) => void
  close: () => void
}

export const PanelContext = createContext<Panels>({ show: () => undefined, close: () => undefined })

export const usePanels = () => useContext(PanelContext)
