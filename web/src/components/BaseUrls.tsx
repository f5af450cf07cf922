import { useMe } from '../access.ts'
import { baseUrls } from '../lines.ts'
import { follow } from '../route.ts'
import styles from './Clients.module.css'
import { CopyButton } from './CopyButton.tsx'

/** How to point a client at this server: the base URLs of this very address, to copy, and which key to use. */
export function BaseUrls() {
  const accounts = useMe().data?.accounts
  return (
    <div className={styles.urls} data-testid="base-urls">
      <dl>
        {baseUrls(location.origin).map(({ name, for: clients, url }) => (
          <div key={name}>
            <dt>For {clients}</dt>
            <dd>
              <code>
                {name}={url}
              </code>
              <CopyButton text={`${name}=${url}`} label={`Copy ${name}`} />
            </dd>
          </div>
        ))}
      </dl>
      {accounts ? (
        <p>
          The API key is a key of yours on this server (<code>lam_…</code>).{' '}
          <a href="/settings" onClick={follow('/settings')}>
            Make one
          </a>
        </p>
      ) : (
        <p>Any text will do as the API key until accounts are set up. The keys of the providers stay with this server.</p>
      )}
    </div>
  )
}
