/** Line icons, drawn for this page on a 16-unit grid. */

import type { ReactNode } from 'react'

function icon(path: ReactNode) {
  return function Icon({ size = 16 }: { size?: number }) {
    return (
      <svg
        width={size}
        height={size}
        viewBox="0 0 16 16"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
        aria-hidden="true"
      >
        {path}
      </svg>
    )
  }
}

export const PlusIcon = icon(<path d="M8 3v10M3 8h10" />)
export const SearchIcon = icon(<path d="M7 2.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4zM10.2 10.2l3.2 3.2" />)
export const CloseIcon = icon(<path d="M3.5 3.5l9 9M12.5 3.5l-9 9" />)
export const SendIcon = icon(<path d="M8 13.2V3M3.8 7.2L8 3l4.2 4.2" />)
export const StopIcon = icon(<rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" />)
export const AttachIcon = icon(
  <path d="M13 7.6l-5 5a3.2 3.2 0 0 1-4.6-4.6l5.2-5.2a2.1 2.1 0 0 1 3 3l-5.1 5.2a1 1 0 0 1-1.5-1.5l4.7-4.7" />,
)
export const ListIcon = icon(<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h7" />)
export const FileIcon = icon(<path d="M4 2h5l3.5 3.5V14H4zM9 2v3.5h3.5" />)
export const PencilIcon = icon(<path d="M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2zM9.2 4.6l2.2 2.2" />)
export const TrashIcon = icon(<path d="M3 4.5h10M6.5 4.5V3h3v1.5M4.3 4.5l.7 8.5h6l.7-8.5" />)
export const CopyIcon = icon(<path d="M5.5 5.5h7.5v7.5H5.5zM10.5 5.5V3H3v7.5h2.5" />)
export const CheckIcon = icon(<path d="M3.5 8.5l3 3 6-7" />)
export const DownIcon = icon(<path d="M8 3v9.5M4 8.6l4 4 4-4" />)
export const LayersIcon = icon(<path d="M2.5 3.5h11M2.5 6.5h11M2.5 9.5h7.5M2.5 12.5h4" />)
export const WarningIcon = icon(<path d="M8 2.5l6 11H2zM8 6.5v3.2M8 11.6v.1" />)
export const SlidersIcon = icon(<path d="M2.5 4.5h5M11 4.5h2.5M2.5 11.5h2.5M8.5 11.5h5M9.2 2.8v3.4M6.8 9.8v3.4" />)
export const EyeIcon = icon(
  <path d="M1.8 8s2.3-4.2 6.2-4.2S14.2 8 14.2 8s-2.3 4.2-6.2 4.2S1.8 8 1.8 8zM8 6.3a1.7 1.7 0 1 1 0 3.4 1.7 1.7 0 0 1 0-3.4z" />,
)
export const HistoryIcon = icon(<path d="M2.6 8a5.4 5.4 0 1 0 1.7-3.9M2.5 2.5v3h3M8 5v3.2l2.2 1.4" />)
export const BackIcon = icon(<path d="M10 4L6 8l4 4" />)
export const AgainIcon = icon(<path d="M13.2 8a5.2 5.2 0 1 1-1.6-3.8M13.4 2.4v3h-3" />)
export const DownChevronIcon = icon(<path d="M4 6l4 4 4-4" />)
export const ChevronIcon = icon(<path d="M6 4l4 4-4 4" />)

export const PlugIcon = icon(<path d="M5.5 2.5v3M10.5 2.5v3M3.5 5.5h9v2a4.5 4.5 0 0 1-9 0zM8 12v2" />)

export const FolderIcon = icon(<path d="M2 4.2V12.5h12V5.7H8L6.6 4.2z" />)
export const BookIcon = icon(<path d="M8 4.2C6.6 3.2 4.6 2.9 2.5 3.2v9c2.1-.3 4.1 0 5.5 1 1.4-1 3.4-1.3 5.5-1v-9C11.4 2.9 9.4 3.2 8 4.2zm0 0v9" />)
export const RobotIcon = icon(<path d="M3.5 6h9v6.5h-9zM8 6V3.4M6 8.6v.8M10 8.6v.8M1.8 8.4v2M14.2 8.4v2" />)
export const DotsIcon = icon(<path d="M3.5 8h.1M8 8h.1M12.5 8h.1" strokeWidth="2.2" />)

/** The mark: thin plates, one above the other. */
export function Mark({ size = 18 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 18 18" fill="none" strokeWidth="2" strokeLinecap="round" aria-hidden="true">
      <path d="M3 3.5h12" stroke="var(--zone-fixed)" />
      <path d="M3 7.2h12" stroke="var(--zone-history)" />
      <path d="M3 10.9h8" stroke="var(--zone-travelling)" />
      <path d="M3 14.6h4.5" stroke="var(--zone-turn)" />
    </svg>
  )
}
