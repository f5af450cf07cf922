import { useQueryClient } from '@tanstack/react-query'
import { lazy, Suspense, useCallback, useEffect, useState } from 'react'
import { Route, Switch } from 'wouter'
import { left } from '../finding.ts'
import { isKept } from '../overlays.ts'
import { PanelContext, usePanel } from '../panels.ts'
import { refresh, useConversation } from '../queries.ts'
import { go, goTo, useConversationId, useLineId } from '../route.ts'
import { turns } from '../turns.ts'
import { LeavingContext, useQuestion } from '../unsaved.ts'
import styles from './App.module.css'
import { Chat } from './Chat.tsx'
import { Confirm } from './Confirm.tsx'
import { ListContext, Page } from './Page.tsx'
import { Sidebar } from './Sidebar.tsx'

const Agents = lazy(() => import('./AgentSettings.tsx'))
const Projects = lazy(() => import('./ProjectSettings.tsx'))
const Knowledge = lazy(() => import('./BaseSettings.tsx'))
const Clients = lazy(() => import('./Clients.tsx'))
const Settings = lazy(() => import('./KeySettings.tsx'))
const Admin = lazy(() => import('./Admin.tsx'))
const ContextDrawer = lazy(() => import('./ContextDrawer.tsx'))
const PassagePanel = lazy(() => import('./PassagePanel.tsx'))
const PreviewDrawer = lazy(() => import('./PreviewDrawer.tsx'))
const SearchDialog = lazy(() => import('./SearchDialog.tsx'))
const Shortcuts = lazy(() => import('./Shortcuts.tsx'))
const SessionsPanel = lazy(() => import('./SessionsPanel.tsx'))

/** The routes, with the list of chats before them and at most one panel after a chat. */
export function App() {
  const conversation = useConversationId()
  const line = useLineId()
  const shown = conversation ?? line ?? null
  const list = useList(shown)
  const { panel, panels } = usePanel(shown)
  const { ask, leaving } = useQuestion()
  useEffect(() => left(conversation), [conversation])
  useEnds()
  const [searching, setSearching] = useState(false)
  const search = useCallback(() => setSearching(true), [])
  const searched = useCallback(() => setSearching(false), [])
  const [helping, setHelping] = useState(false)
  const help = useCallback(() => setHelping(true), [])
  const helped = useCallback(() => setHelping(false), [])
  useKeys(search, help)
  useHarmlessDrop()

  return (
    <PanelContext value={panels}>
      <LeavingContext value={ask}>
        <ListContext value={list.toggle}>
          <a className="skip" href="#main">
            Skip to the content
          </a>
          <div className={styles.app} data-list={list.hidden ? 'hidden' : 'shown'} data-panel={panel?.kind ?? 'none'}>
            <Sidebar current={conversation} open={list.over} hidden={list.hidden} onClose={list.close} onSearch={search} />
            <Suspense fallback={<main className={styles.loading} />}>
              <Switch>
                <Route path="/">
                  <OneChat conversation={null} />
                </Route>
                <Route path="/c/:id">{({ id }) => <OneChat conversation={id} />}</Route>
                <Route path="/projects/:id?">{({ id }) => <Projects id={id ?? null} />}</Route>
                <Route path="/knowledge/:id?">{({ id }) => <Knowledge id={id ?? null} />}</Route>
                <Route path="/agents/:id?">{({ id }) => <Agents id={id ?? null} />}</Route>
                <Route path="/clients/:id?">{({ id }) => <Clients line={id ?? null} />}</Route>
                <Route path="/settings">
                  <Settings />
                </Route>
                <Route path="/admin/:part?">{({ part }) => <Admin part={part ?? null} />}</Route>
                <Route>
                  <Missing />
                </Route>
              </Switch>
              {panel?.kind === 'passage' && <PassagePanel passage={panel} onClose={panels.close} />}
              {panel?.kind === 'context' && shown !== null && (
                <ContextDrawer conversation={shown} at={panel} onClose={panels.close} />
              )}
              {panel?.kind === 'preview' && <PreviewDrawer conversation={conversation} onClose={panels.close} />}
              {panel?.kind === 'sessions' && conversation !== null && (
                <SessionsPanel conversation={conversation} onClose={panels.close} />
              )}
            </Suspense>
          </div>
          <Suspense fallback={null}>{searching && <SearchDialog onClose={searched} />}{helping && <Shortcuts onClose={helped} />}</Suspense>
          {leaving && (
            <Confirm
              question="Discard your changes?"
              detail="They have not been saved."
              action="Discard"
              onConfirm={leaving.giveUp}
              onCancel={leaving.stay}
            />
          )}
        </ListContext>
      </LeavingContext>
    </PanelContext>
  )
}

function OneChat({ conversation }: { conversation: string | null }) {
  const { data } = useConversation(conversation)
  const title = conversation === null ? '' : data?.title
  useEffect(() => {
    document.title = title ? `${title} · Lamella` : 'Lamella'
  }, [title])
  return <Chat key={conversation ?? 'new'} conversation={conversation} />
}

function Missing() {
  return (
    <Page title="Page not found" testId="missing">
      <p>Nothing is at this address. Choose a page or a chat from the list.</p>
    </Page>
  )
}

/** The list of chats: next to the page, which can hide it, or over the page on narrow screens. */
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
function useKeys(search: () => void, help: () => void): void {
  useEffect(() => {
    const acts: Record<string, () => void> = {
      k: search,
      'shift+o': () => go(null),
      ',': () => goTo('/settings'),
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.key === '?' && !isKept(event) && !isTyping(event.target)) help()
      if (!(event.ctrlKey || event.metaKey) || event.altKey) return
      const act = acts[(event.shiftKey ? 'shift+' : '') + event.key.toLowerCase()]
      if (!act || isKept(event)) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [search, help])
}

const isTyping = (target: EventTarget | null) => target instanceof Element && target.closest('input, textarea, [contenteditable]') !== null

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
