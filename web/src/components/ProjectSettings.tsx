import type { Project } from '../objects.ts'
import { tokens } from '../format.ts'
import type { SectionProps } from '../panels.ts'
import { useProjects } from '../resourceQueries.ts'
import { ErrorNote } from './ErrorNote.tsx'
import { ProjectForm } from './ProjectForm.tsx'
import { SettingsList } from './SettingsList.tsx'

const ABOUT = 'The files and instructions of a project are given to every conversation that belongs to it.'

export function ProjectSettings({ id, onOpen }: SectionProps) {
  const projects = useProjects()
  const project = projects.data?.find((one) => one.id === id)
  if (id === 'new') return <ProjectForm project={null} onDone={() => onOpen(null)} />
  if (project) return <ProjectForm project={project} onDone={() => onOpen(null)} />
  return (
    <>
      {id !== null && projects.isSuccess && <ErrorNote problem={{ message: 'This project was removed.' }} />}
      <SettingsList items={projects.data} error={projects.error} noun="project" about={ABOUT} gist={gist} onOpen={onOpen} />
    </>
  )
}

function gist({ files, tokens: size, instructions }: Project): string {
  const count = files.length === 1 ? '1 file' : `${files.length} files`
  return [`${count}, ${tokens(size)} tokens`, instructions].filter(Boolean).join(' · ')
}
