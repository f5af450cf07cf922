import { useEffect, useState } from 'react'
import controls from './controls.module.css'
import { CheckIcon, CopyIcon } from './icons.tsx'

/** Copies text. Browsers allow that on secure addresses only; elsewhere there is no button. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  if (!globalThis.navigator?.clipboard) return null
  return (
    <button
      type="button"
      className={controls.icon}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
      aria-label={copied ? 'Copied' : label}
      title={copied ? 'Copied' : label}
    >
      {copied ? <CheckIcon /> : <CopyIcon />}
    </button>
  )
}
