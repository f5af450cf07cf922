import type { KnowledgeBase } from '../objects.ts'
import { type ReactNode, useState } from 'react'
import { useBases } from '../access.ts'
import { goTo } from '../route.ts'
import { BaseAccess } from './BaseAccess.tsx'
import { BaseDocuments } from './BaseDocuments.tsx'
import { BaseForm } from './BaseForm.tsx'
import { BaseSearch } from './BaseSearch.tsx'
import { BaseSearchers } from './BaseSearchers.tsx'
import { ErrorNote } from './ErrorNote.tsx'
import form from './form.module.css'
import { Page } from './Page.tsx'
import { RestrictedAccess } from './RestrictedAccess.tsx'
import styles from './Settings.module.css'
import { SettingsList } from './SettingsList.tsx'

const ABOUT = 'Documents that conversations and agents search. Whose base it is says who else may read it.'

/** The list of knowledge bases, or one of them with all that belongs to it. */
export default function Knowledge({ id }: { id: string | null }) {
  const bases = useBases()
  const base = bases.data?.find((one) => one.id === id)
  const back = { path: '/knowledge', label: 'All knowledge bases' }
  const onDone = () => goTo('/knowledge')
  if (id === 'new')
    return (
      <Page title="New base" testId="base" back={back}>
        <BaseForm base={null} onDone={onDone} onMade={(made) => goTo(`/knowledge/${made}`)} />
      </Page>
    )
  if (base)
    return (
      <Page key={base.id} title={base.name} testId="base" back={back}>
        <OneBase base={base} onDone={onDone} />
      </Page>
    )
  return (
    <Page title="Knowledge" testId="knowledge">
      {id !== null && bases.isSuccess && !bases.isFetching && <ErrorNote problem={{ message: 'This knowledge base is not there.' }} />}
      <SettingsList items={bases.data} error={bases.error} noun="base" about={ABOUT} gist={gist} path="/knowledge" />
    </Page>
  )
}

const levels = { full: 'You read all of it', restricted: 'Restricted: you may ask about it, and get answers in general words', none: 'You may not read it' }

function gist(base: KnowledgeBase): string {
  return base.is_owner ? base.description || 'Yours' : levels[base.level]
}

const tabs = [
  { name: 'documents', label: 'Documents' },
  { name: 'search', label: 'Search' },
  { name: 'used', label: 'Used in' },
  { name: 'about', label: 'About' },
  { name: 'access', label: 'Access' },
  { name: 'restricted', label: 'Restricted access' },
] as const

type Tab = (typeof tabs)[number]['name']

/** A base. What was opened of it stays as it is while another part is looked at. */
function OneBase({ base, onDone }: { base: KnowledgeBase; onDone: () => void }) {
  const readable = base.level === 'full'
  const [tab, setTab] = useState<Tab>(readable ? 'documents' : 'about')
  const [opened, setOpened] = useState<ReadonlySet<Tab>>(new Set([tab]))
  const show = (name: Tab) => {
    setTab(name)
    setOpened((old) => new Set([...old, name]))
  }
  const shown = tabs.filter(({ name }) => name === 'about' || name === 'used' || (name === 'access' || name === 'restricted' ? base.is_owner : readable))
  const part = (name: Tab, content: ReactNode) => opened.has(name) && <div hidden={tab !== name}>{content}</div>
  return (
    <>
      <nav className={styles.sections} aria-label={`Parts of ${base.name}`}>
        {shown.map(({ name, label }) => (
          <button key={name} type="button" aria-current={tab === name ? 'page' : undefined} onClick={() => show(name)} data-testid={`base-${name}`}>
            {label}
          </button>
        ))}
      </nav>
      {part('documents', <BaseDocuments base={base} />)}
      {part('search', <BaseSearch base={base} />)}
      {part('used', <BaseSearchers base={base} />)}
      {part('about', base.is_owner ? <BaseForm base={base} onDone={onDone} onMade={onDone} /> : <About base={base} />)}
      {part('access', <BaseAccess base={base} />)}
      {part('restricted', <RestrictedAccess base={base} />)}
    </>
  )
}

/** Somebody else's base. */
function About({ base }: { base: KnowledgeBase }) {
  const { description, summary, topics = [] } = base
  return (
    <div className={form.group}>
      {description && <p>{description}</p>}
      {summary && <p>{summary}</p>}
      {topics.length > 0 && <p className={form.quiet}>{topics.join(' · ')}</p>}
      <p className={form.quiet}>{levels[base.level]}. Ask its owner for more.</p>
    </div>
  )
}
