import type { Key } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { useCreateKey, useKeys, useLogOut, useMe, useRevokeKey, useSetKey } from '../access.ts'
import { problemAt, problemElsewhere } from '../fields.ts'
import { fullMoment } from '../format.ts'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Field, useFirstWrong } from './Field.tsx'
import form from './form.module.css'
import { Page } from './Page.tsx'
import { Pick } from './Pick.tsx'
import { PreferenceSettings } from './PreferenceSettings.tsx'
import { Secret } from './Secret.tsx'

/** Who one is here, and one's keys. */
export default function Settings() {
  const me = useMe()
  const keys = useKeys()
  const revoke = useRevokeKey()
  const set = useSetKey()
  const logOut = useLogOut()
  return (
    <Page title="Settings" testId="settings">
      {me.data && (
        <div className={styles.member}>
          <span data-testid="me">
            {me.data.name}
            <small>{me.data.accounts ? me.data.role : 'the one user of this server: no key is needed'}</small>
          </span>
          {me.data.accounts && (
            <button type="button" className={controls.plain} disabled={logOut.isPending} onClick={() => logOut.mutate()} data-testid="log-out">
              Log out
            </button>
          )}
        </div>
      )}
      <PreferenceSettings />
      <h2 className={form.title}>Keys</h2>
      <p className={form.quiet}>A key lets a program or another page use this server as you.</p>
      {keys.error && <QueryError error={keys.error} />}
      {revoke.error && <QueryError error={revoke.error} />}
      {set.error && <QueryError error={set.error} />}
      <ul className={form.list}>
        {keys.data?.map((key) => (
          <Row
            key={key.id}
            one={key}
            onChange={(options) => set.mutate({ id: key.id, ...options })}
            onRevoke={() => revoke.mutate(key.id)}
          />
        ))}
      </ul>
      <NewKey />
    </Page>
  )
}

const STORAGES = [
  { id: 'full', name: 'all' },
  { id: 'hashes', name: 'no text' },
  { id: 'off', name: 'nothing' },
]

const CONTEXTS = [
  { id: 'manage', name: 'shortened' },
  { id: 'off', name: 'as sent' },
]

interface RowProps {
  one: Key
  onChange: (options: Partial<Pick<Key, 'storage' | 'context'>>) => void
  onRevoke: () => void
}

function Row({ one, onChange, onRevoke }: RowProps) {
  const [asking, setAsking] = useState(false)
  const parts = [
    `${one.prefix}…`,
    one.scopes.join(', '),
    one.last_used_at ? `last used ${fullMoment(one.last_used_at)}` : 'never used',
    one.expires_at && `until ${fullMoment(one.expires_at)}`,
    one.issued_by !== one.user_id && 'issued by an admin',
  ]
  return (
    <li className={styles.member} data-testid="key">
      <span>
        {one.name}
        <small>{parts.filter(Boolean).join(' · ')}</small>
      </span>
      {one.revoked_at ? (
        <span>revoked {fullMoment(one.revoked_at)}</span>
      ) : (
        <>
          <Pick
            label="Stores"
            name="storage"
            value={one.storage}
            none="default"
            detail="What is stored of the requests of a program that uses this key"
            options={STORAGES}
            onChange={(value) => onChange({ storage: value as Key['storage'] })}
          />
          <Pick
            label="Histories"
            name="context"
            value={one.context}
            none="default"
            detail="Whether old messages of a program that uses this key are sent on as summaries"
            options={CONTEXTS}
            onChange={(value) => onChange({ context: value as Key['context'] })}
          />
          <button type="button" className={controls.danger} onClick={() => setAsking(true)}>
          Revoke
        </button>
        </>
      )}
      {asking && (
        <Confirm
          question={`Revoke “${one.name}”?`}
          detail="It opens nothing from then on, and pages that logged in with it are logged out."
          action="Revoke"
          onConfirm={() => {
            setAsking(false)
            onRevoke()
          }}
          onCancel={() => setAsking(false)}
        />
      )}
    </li>
  )
}

function NewKey() {
  const [name, setName] = useState('')
  const create = useCreateKey()
  const element = useFirstWrong(create.error)
  const problem = problemElsewhere(create.error, ['name'])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate({ name }, { onSuccess: () => setName('') })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="new-key">
      {problem && <ErrorNote problem={problem} />}
      {create.data && <Secret secret={create.data.secret ?? ''} />}
      <Field label="New key" hint="What it is for." problem={problemAt(create.error, 'name')}>
        {(control) => <input {...control} name="name" value={name} onChange={(event) => setName(event.target.value)} />}
      </Field>
      <div className={form.actions}>
        <button type="submit" className={controls.strong} disabled={create.isPending} data-testid="create-key">
          Make a key
        </button>
      </div>
    </form>
  )
}
