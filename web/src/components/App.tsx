import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { PanelContext, type PanelContent } from '../panels.ts'
import { refresh, useConversation } from '../queries.ts'
import { go, useConversationId } from '../route.ts'
import { turns } from '../turns.ts'
import styles from './App.module.css'
import { Chat } from './Chat.tsx'
import { ContextDrawer } from './ContextDrawer.tsx'
import { PassagePanel } from './PassagePanel.tsx'
import { Sidebar } from './Sidebar.tsx'

export function App() {
  const conversation = useConversationId()
  const list = useList(conversation)
  const { panel, panels } = usePanel(conversation)
  useTitle(conversation)
  useEnds()
  useNewConversationKey()

  return (
    <PanelContext value={panels}>
      <div className={styles.app} data-list={list.hidden ? 'hidden' : 'shown'} data-panel={panel?.kind ?? 'none'}>
        <Sidebar current={conversation} open={list.over} hidden={list.hidden} onClose={list.close} />
        <Chat key={conversation ?? 'new'} conversation={conversation} onToggleList={list.toggle} />
        {panel?.kind === 'passage' && <PassagePanel passage={panel} onClose={panels.close} />}
        {panel?.kind === 'context' && conversation !== null && (
          <ContextDrawer conversation={conversation} turn={panel.turn} onClose={panels.close} />
        )}
      </div>
    </PanelContext>
  )
}

/** The list of conversations: beside the chat, where it can be put away, or over it on narrow screens. */
function useList(conversation: string | null) {
  const [over, setOver] = useState(false)
  const [hidden, setHidden] = useState(false)
  useEffect(() => setOver(false), [conversation])
  const close = useCallback(() => setOver(false), [])
  const toggle = useCallback(() => {
    if (matchMedia('(max-width: 800px)').matches) setOver((open) => !open)
    else setHidden((old) => !old)
  }, [])
  return { over, hidden, close, toggle }
}

/** One panel at a time; closing it gives the focus back to what opened it. */
function usePanel(conversation: string | null) {
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

function useTitle(conversation: string | null): void {
  const { data } = useConversation(conversation)
  const title = conversation === null ? '' : data?.title
  useEffect(() => {
    document.title = title ? `${title} · Lamella` : 'Lamella'
  }, [title])
}

/** When a turn of any conversation ends, what is known about that conversation is out of date. */
function useEnds(): void {
  const client = useQueryClient()
  useEffect(() => {
    const homes = new Map<string, string>()
    return turns.watch((turn, packet) => {
      if (packet.type === 'turn.started') homes.set(turn, packet.conversation_id)
      const home = homes.get(turn)
      if (packet.type !== 'turn.finished' || !home) return
      homes.delete(turn)
      refresh(client, home, turn)
    })
  }, [client])
}

function useNewConversationKey(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return
      event.preventDefault()
      go(null)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}
