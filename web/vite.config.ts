import react from '@vitejs/plugin-react'
import { defineConfig, type ViteUserConfig } from 'vitest/config'

/** KaTeX names each font in three formats; every browser that this page is built for reads the first. */
const oneFormat = {
  name: 'one-format-per-font',
  enforce: 'pre' as const,
  transform: (code: string, id: string) =>
    /katex[^/]*\.css$/.test(id) ? code.replace(/,url\([^)]*\) format\("(?:woff|truetype)"\)/g, '') : null,
} satisfies NonNullable<ViteUserConfig['plugins']>[number]

export default defineConfig({
  plugins: [react(), oneFormat],
  build: {
    target: 'es2022',
    // The server allows only its own files: nothing inline, no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    emptyOutDir: true,
    reportCompressedSize: false,
  },
  server: {
    proxy: { '/api': 'http://127.0.0.1:8399' },
  },
  test: {
    include: ['src/**/*.test.{ts,tsx}'],
    environment: 'node',
    // On a busy machine some hundred renderings take longer than five seconds.
    testTimeout: 30_000,
  },
})
