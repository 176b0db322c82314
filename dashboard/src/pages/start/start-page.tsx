import { useWorkspaces } from '../../api/session.ts';
import { Page } from '../../ui/page.tsx';
import { Table } from '../../ui/table.tsx';

/** All workspaces of the user. */
export function StartPage() {
  const workspaces = useWorkspaces();
  return (
    <Page title="Workspaces">
      <Table
        label="Your workspaces"
        rows={workspaces}
        keyOf={({ id }) => id}
        linkOf={({ slug }) => ({ to: '/$workspace', params: { workspace: slug } })}
        columns={[
          { title: 'Name', cell: ({ name }) => name },
          { title: 'Address', cell: ({ slug }) => <span className="text-soft">{slug}</span>, from: 'sm' },
          { title: 'Your role', cell: ({ role }) => (role === 'owner' ? 'Owner' : 'Member') },
          { title: 'Members', cell: ({ member_count }) => member_count, isNumber: true },
        ]}
      />
    </Page>
  );
}
