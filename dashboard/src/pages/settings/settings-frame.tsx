import type { ReactNode } from 'react';
import { useWorkspace } from '../../api/session.ts';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';

const PARTS = [
  ['general', 'General'],
  ['members', 'Members'],
  ['keys', 'API keys'],
  ['clients', 'Connected clients'],
  ['trusts', 'Publishing from CI'],
  ['secrets', 'Secrets'],
  ['providers', 'Providers'],
  ['destinations', 'Destinations'],
  ['telemetry', 'Telemetry'],
  ['grants', 'Grants'],
  ['signing', 'Signing'],
  ['audit', 'Audit log'],
] as const;

/** Frame of the workspace settings; each section is a page. */
export function SettingsFrame({
  part,
  description,
  actions,
  children,
}: {
  readonly part: (typeof PARTS)[number][0];
  readonly description: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}) {
  const { slug } = useWorkspace();
  const tabs = PARTS.map(([id, label]) => ({
    label,
    to: `/$workspace/settings/${id}`,
    params: { workspace: slug },
    isCurrent: id === part,
  }));
  const [, title] = PARTS.find(([id]) => id === part)!;
  return (
    <Page title={title} description={description} actions={actions} tabs={<Tabs label="Settings" tabs={tabs} />}>
      {children}
    </Page>
  );
}
