import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState } from 'react'
import { left } from '../finding.ts'
import { PanelContext, type Panels, usePanel } from '../panels.ts'
import { refresh, useConversation } from '../queries.ts'
import { go, useConversationId, useLineId } from '../route.ts'
import { turns } from '../turns.ts'
import styles from './App.module.css'
import { Chat } from './Chat.tsx'
import { Clients } from './Clients.tsx'
import { Confirm } from './Confirm.tsx'
import { ContextDrawer } from './ContextDrawer.tsx'
import { PassagePanel } from './PassagePanel.tsx'
import { PreviewDrawer } from './PreviewDrawer.tsx'
import { SearchDialog } from './SearchDialog.tsx'
import { SessionsPanel } from './SessionsPanel.tsx'
import { Settings } from './Settings.tsx'
import { Sidebar } from './Sidebar.tsx'

export function App() {
  const conversation = useConversationId()
  const line = useLineId()
  const shown = conversation ?? line ?? null
  const list = useList(shown)
  const { panel, panels, leaving } = usePanel(shown)
  useTitle(conversation, line !== undefined)
  useEffect(() => left(conversation), [conversation])
  useEnds()
  const [searching, setSearching] = useState(false)
  const search = useCallback(() => setSearching(true), [])
  const searched = useCallback(() => setSearching(false), [])
  useKeys(panels, search)
  useHarmlessDrop()

  return (
    <PanelContext value={panels}>
      <div className={styles.app} data-list={list.hidden ? 'hidden' : 'shown'} data-panel={panel?.kind ?? 'none'}>
        <Sidebar current={conversation} open={list.over} hidden={list.hidden} onClose={list.close} onSearch={search} />
        {line !== undefined ? (
          <Clients line={line} onToggleList={list.toggle} />
        ) : (
          <Chat key={conversation ?? 'new'} conversation={conversation} onToggleList={list.toggle} />
        )}
        {panel?.kind === 'passage' && <PassagePanel passage={panel} onClose={panels.close} />}
        {panel?.kind === 'context' && shown !== null && (
          <ContextDrawer conversation={shown} at={panel} onClose={panels.close} />
        )}
        {panel?.kind === 'preview' && <PreviewDrawer conversation={conversation} onClose={panels.close} />}
        {panel?.kind === 'sessions' && conversation !== null && (
          <SessionsPanel conversation={conversation} onClose={panels.close} />
        )}
        {panel?.kind === 'settings' && <Settings at={panel} />}
      </div>
      {searching && <SearchDialog onClose={searched} />}
      {leaving && (
        <Confirm
          question="Discard your changes?"
          detail="It has not been saved."
          action="Discard"
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

function useTitle(conversation: string | null, clients: boolean): void {
  const { data } = useConversation(conversation)
  const title = clients ? 'Clients' : conversation === null ? '' : data?.title
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

/** The keys of the whole page. A dialog that is open keeps its own. */
function useKeys(panels: Panels, search: () => void): void {
  useEffect(() => {
    const acts: Record<string, () => void> = {
      k: search,
      'shift+o': () => go(null),
      ',': () => panels.show({ kind: 'settings', section: 'agents', id: null }),
    }
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey) return
      const act = acts[(event.shiftKey ? 'shift+' : '') + event.key.toLowerCase()]
      if (!act || document.querySelector('dialog[open]')) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [panels, search])
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
