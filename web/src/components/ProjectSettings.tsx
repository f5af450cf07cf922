import type { Project } from '../objects.ts'
import { tokens } from '../format.ts'
import { useProjects } from '../resourceQueries.ts'
import { goTo } from '../route.ts'
import { ErrorNote } from './ErrorNote.tsx'
import { Page } from './Page.tsx'
import { ProjectForm } from './ProjectForm.tsx'
import { SettingsList } from './SettingsList.tsx'

const ABOUT = 'The files and instructions of a project are given to every conversation that belongs to it.'

/** The list of projects, or one of them. */
export default function Projects({ id }: { id: string | null }) {
  const projects = useProjects()
  const project = projects.data?.find((one) => one.id === id)
  const onDone = () => goTo('/projects')
  if (id === 'new' || project)
    return (
      <Page key={id} title={project?.name ?? 'New project'} testId="project" back={{ path: '/projects', label: 'All projects' }}>
        <ProjectForm project={project ?? null} onDone={onDone} />
      </Page>
    )
  return (
    <Page title="Projects" testId="projects">
      {id !== null && projects.isSuccess && !projects.isFetching && <ErrorNote problem={{ message: 'This project was removed.' }} />}
      <SettingsList items={projects.data} error={projects.error} noun="project" about={ABOUT} gist={gist} path="/projects" />
    </Page>
  )
}

function gist({ files, tokens: size, instructions }: Project): string {
  const count = files.length === 1 ? '1 file' : `${files.length} files`
  return [`${count}, ${tokens(size)} tokens`, instructions].filter(Boolean).join(' · ')
}
