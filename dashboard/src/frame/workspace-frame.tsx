import { Outlet, useParams } from '@tanstack/react-router';
import { useMaybeWorkspace } from '../api/session.ts';
import { Link } from '../ui/link.tsx';
import { Page } from '../ui/page.tsx';

/** Shows the pages of a workspace to its members. */
export function WorkspaceFrame() {
  const { workspace: slug } = useParams({ strict: false });
  if (useMaybeWorkspace() !== undefined) return <Outlet />;
  return (
    <Page title="Workspace not found">
      <p>
        The workspace “{slug}” does not exist, or you do not have access to it. <Link to="/">Your workspaces</Link>
      </p>
    </Page>
  );
}
