import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { ApiError } from './api.ts'
import { App } from './components/App.tsx'
import './page.css'

const client = new QueryClient({
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

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
)
