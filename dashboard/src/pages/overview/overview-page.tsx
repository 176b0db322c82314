import { useWorkspace } from '../../api/session.ts';
import { Link } from '../../ui/link.tsx';
import { Page } from '../../ui/page.tsx';

export function OverviewPage() {
  const { name, slug } = useWorkspace();
  return (
    <Page title={name}>
      <p>
        <Link to="/$workspace/agents" params={{ workspace: slug }}>
          Agents of this workspace
        </Link>
      </p>
    </Page>
  );
}
