import { type FormEvent, type ReactNode, useState } from 'react'
import { useLogIn, useLoginInfo, useMe, useSetUp } from '../access.ts'
import { ApiError, explain } from '../api.ts'
import controls from './controls.module.css'
import styles from './Entrance.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Field } from './Field.tsx'
import form from './form.module.css'
import { Secret } from './Secret.tsx'

/** The page for who may see it; for others what it takes to get in. */
export function Entrance({ children }: { children: ReactNode }) {
  const me = useMe()
  if (me.isPending) return null
  if (me.error instanceof ApiError && me.error.status === 401) return <Door />
  // Whatever else failed, the page says so where it matters.
  return children
}

function Door() {
  const login = useLoginInfo()
  return (
    <main className={styles.door} data-testid="entrance">
      <h1>Lamella</h1>
      {login.error && <QueryError error={login.error} />}
      {login.data && (login.data.token_needed ? <SetUp /> : <LogIn />)}
    </main>
  )
}

function LogIn() {
  const [key, setKey] = useState('')
  const logIn = useLogIn()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    logIn.mutate(key)
  }
  return (
    <form className={form.form} onSubmit={submit} noValidate data-testid="login">
      {logIn.error && <ErrorNote problem={explain(logIn.error)} />}
      <Field label="Your key" hint="It begins with lam_. An admin of this server issues keys.">
        {(control) => (
          <input
            {...control}
            type="password"
            name="key"
            autoComplete="current-password"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            autoFocus
          />
        )}
      </Field>
      <div className={form.actions}>
        <button type="submit" className={controls.strong} disabled={logIn.isPending || key.trim() === ''} data-testid="log-in">
          Log in
        </button>
      </div>
    </form>
  )
}

/** The first admin, by the token that the server printed when it started. */
function SetUp() {
  const [name, setName] = useState('')
  const [token, setToken] = useState('')
  const setUp = useSetUp()
  const logIn = useLogIn()
  const secret = setUp.data?.key.secret
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setUp.mutate({ name, token: token.trim() })
  }
  if (secret)
    return (
      <div className={form.form}>
        <Secret secret={secret} />
        {logIn.error && <ErrorNote problem={explain(logIn.error)} />}
        <div className={form.actions}>
          <button type="button" className={controls.strong} disabled={logIn.isPending} onClick={() => logIn.mutate(secret)}>
            I kept it: log in
          </button>
        </div>
      </div>
    )
  return (
    <form className={form.form} onSubmit={submit} noValidate data-testid="set-up">
      <p className={form.quiet}>Nobody can use this server yet. Make its first admin.</p>
      {setUp.error && <ErrorNote problem={explain(setUp.error)} />}
      <Field label="Your name">
        {(control) => <input {...control} name="name" value={name} onChange={(event) => setName(event.target.value)} autoFocus />}
      </Field>
      <Field label="First-run token" hint="The server printed it when it started.">
        {(control) => (
          <input {...control} type="password" name="token" autoComplete="off" value={token} onChange={(event) => setToken(event.target.value)} />
        )}
      </Field>
      <div className={form.actions}>
        <button type="submit" className={controls.strong} disabled={setUp.isPending} data-testid="set-up-button">
          Set up
        </button>
      </div>
    </form>
  )
}
