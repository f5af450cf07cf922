import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { accessKeys } from './access.ts'
import { ApiError } from './api.ts'
import { App } from './components/App.tsx'
import { Entrance } from './components/Entrance.tsx'
import './page.css'
import { watchOverlays } from './overlays.ts'
import { loadPreferences } from './preferences.ts'
import { guardBack } from './route.ts'

/** A login that ended meanwhile: ask again who this is, and show the entrance. */
function onError(error: Error): void {
  const known = client.getQueryData(accessKeys.me) !== undefined
  if (known && error instanceof ApiError && error.status === 401) void client.resetQueries({ queryKey: accessKeys.me })
}

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // Only an unreachable or busy server is worth asking again.
      retry: (count, error) => count < 3 && error instanceof ApiError && (error.status === 0 || error.status > 499),
      retryDelay: (attempt) => Math.min(8000, 500 * 2 ** attempt),
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

loadPreferences()
watchOverlays()
guardBack()

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Entrance>
        <App />
      </Entrance>
    </QueryClientProvider>
  </StrictMode>,
)
