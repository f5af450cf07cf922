import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState } from 'react'
import { PanelContext, type Panels, usePanel } from '../panels.ts'
import { refresh, useConversation } from '../queries.ts'
import { go, useConversationId } from '../route.ts'
import { turns } from '../turns.ts'
import styles from './App.module.css'
import { Chat } from './Chat.tsx'
import { Confirm } from './Confirm.tsx'
import { ContextDrawer } from './ContextDrawer.tsx'
import { PassagePanel } from './PassagePanel.tsx'
import { PreviewDrawer } from './PreviewDrawer.tsx'
import { SessionsPanel } from './SessionsPanel.tsx'
import { Settings } from './Settings.tsx'
import { Sidebar } from './Sidebar.tsx'

export function App() {
  const conversation = useConversationId()
  const list = useList(conversation)
  const { panel, panels, leaving } = usePanel(conversation)
  useTitle(conversation)
  useEnds()
  useNewConversationKey()
  useSettingsKey(panels)
  useHarmlessDrop()

  return (
    <PanelContext value={panels}>
      <div className={styles.app} data-list={list.hidden ? 'hidden' : 'shown'} data-panel={panel?.kind ?? 'none'}>
        <Sidebar current={conversation} open={list.over} hidden={list.hidden} onClose={list.close} />
        <Chat key={conversation ?? 'new'} conversation={conversation} onToggleList={list.toggle} />
        {panel?.kind === 'passage' && <PassagePanel passage={panel} onClose={panels.close} />}
        {panel?.kind === 'context' && conversation !== null && (
          <ContextDrawer conversation={conversation} turn={panel.turn} onClose={panels.close} />
        )}
        {panel?.kind === 'preview' && <PreviewDrawer conversation={conversation} onClose={panels.close} />}
        {panel?.kind === 'sessions' && conversation !== null && (
          <SessionsPanel conversation={conversation} onClose={panels.close} />
        )}
        {panel?.kind === 'settings' && <Settings at={panel} />}
      </div>
      {leaving && (
        <Confirm
          question="Give up what you wrote?"
          detail="It has not been saved."
          action="Give up"
          onConfirm={leaving.giveUp}
          onCancel={leaving.stay}
        />
      )}
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
    return turns.watch((turn, home) => {
      if (home !== null) refresh(client, home, turn)
      else void client.invalidateQueries()
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

function useSettingsKey(panels: Panels): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== ',' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return
      event.preventDefault()
      panels.show({ kind: 'settings', section: 'agents', id: null })
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [panels])
}

/** A file dropped where nothing takes it would replace the page. */
function useHarmlessDrop(): void {
  useEffect(() => {
    const onDrag = (event: DragEvent) => {
      if (event.defaultPrevented || !event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      event.dataTransfer.dropEffect = 'none'
    }
    addEventListener('dragover', onDrag)
    addEventListener('drop', onDrag)
    return () => {
      removeEventListener('dragover', onDrag)
      removeEventListener('drop', onDrag)
    }
  }, [])
}
