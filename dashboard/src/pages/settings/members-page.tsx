import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { LogOut, MoreHorizontal, UserMinus, UserPlus, UserRoundCog } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWho, useWorkspace, workspacesQuery } from '../../api/session.ts';
import { BASE_PATH } from '../../base.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Section } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { SettingsFrame } from './settings-frame.tsx';

type Member = AnswerOf<'listMembers'>['members'][number];
type Role = Member['role'];

const ROLES = [
  { id: 'member', label: 'Member', description: 'Can run and publish agents' },
  { id: 'owner', label: 'Owner', description: 'Can also invite people and manage secrets and settings' },
];
const RoleBadge = ({ role }: { readonly role: Role }) => (
  <Badge tone={role === 'owner' ? 'info' : 'plain'}>{role === 'owner' ? 'Owner' : 'Member'}</Badge>
);
const nameOf = ({ name, email, id }: Member): string => name || email || id;

/** Members of the workspace with their roles, and pending invitations. */
export function MembersPage() {
  const { id: workspace_id, name: workspaceName, role } = useWorkspace();
  const { user } = useWho();
  const { data, error, refetch } = useOperation('listMembers', { params: { workspace_id } });
  const [isInviting, setInviting] = useState(false);
  const [removing, setRemoving] = useState<Member>();
  const change = useAction('updateMember', { stale: ['listMembers', 'listWorkspaces'] });
  const remove = useAction('removeMember', { stale: ['listMembers', 'listWorkspaces'], silent: true });
  const leave = useLeave();
  const isOwner = role === 'owner';
  const isOwn = removing?.id === user.id;
  return (
    <SettingsFrame
      part="members"
      description="People with access to the workspace, and their roles."
      actions={
        isOwner && (
          <Button variant="primary" icon={UserPlus} onPress={() => setInviting(true)}>
            Invite a person
          </Button>
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Members"
          rows={data.members}
          keyOf={({ id }) => id}
          columns={[
            {
              title: 'Who',
              cell: (member) => (
                <>
                  <div className="font-medium">
                    {nameOf(member)}
                    {member.id === user.id && <span className="font-normal text-soft"> (you)</span>}
                  </div>
                  {member.email && member.email !== nameOf(member) && <div className="text-soft">{member.email}</div>}
                </>
              ),
            },
            { title: 'Role', cell: ({ role }) => <RoleBadge role={role} /> },
            { title: 'Joined', cell: ({ accepted_at }) => <Time at={accepted_at} />, from: 'sm' },
            {
              title: 'Action',
              cell: (member) => {
                const other = member.role === 'owner' ? 'member' : 'owner';
                const own = member.id === user.id;
                if (!isOwner && !own) return null;
                return (
                  <Menu
                    label={`Actions for ${nameOf(member)}`}
                    entries={[
                      ...(isOwner
                        ? [
                            {
                              id: 'role',
                              label: other === 'owner' ? 'Make owner' : 'Make member',
                              icon: UserRoundCog,
                              run: () =>
                                change.mutate({ params: { workspace_id, user_id: member.id }, body: { role: other } }),
                            },
                          ]
                        : []),
                      {
                        id: 'remove',
                        label: own ? 'Leave workspace' : 'Remove from workspace',
                        icon: own ? LogOut : UserMinus,
                        isDanger: true,
                        run: () => setRemoving(member),
                      },
                    ]}
                  >
                    <IconButton icon={MoreHorizontal} label={`Actions for ${nameOf(member)}`} />
                  </Menu>
                );
              },
            },
          ]}
        />
      )}
      {data?.members.length === 1 && data.invites.length === 0 && isOwner && (
        <Empty icon={UserPlus} title="You are the only member">
          Invite people to publish and run agents with you. Each gets a link that works once.
        </Empty>
      )}
      {data && data.invites.length > 0 && <Invites invites={data.invites} />}
      {isInviting && <NewInvite onClose={() => setInviting(false)} />}
      <ConfirmDialog
        title={isOwn ? `Leave "${workspaceName}"?` : `Remove ${removing && nameOf(removing)}?`}
        isOpen={removing !== undefined}
        onClose={() => setRemoving(undefined)}
        action={isOwn ? 'Leave workspace' : 'Remove member'}
        onConfirm={() =>
          isOwn ? leave(user.id) : remove.mutateAsync({ params: { workspace_id, user_id: removing!.id } })
        }
      >
        {isOwn
          ? 'You lose access to the workspace. To return, you need an invitation.'
          : 'They lose access immediately. Agents they published are kept.'}
      </ConfirmDialog>
    </SettingsFrame>
  );
}

/** Leaves the workspace and its page, which is no longer accessible. */
function useLeave() {
  const { id: workspace_id } = useWorkspace();
  const remove = useAction('removeMember', { silent: true });
  const navigate = useNavigate();
  const queries = useQueryClient();
  return async (user_id: string) => {
    await remove.mutateAsync({ params: { workspace_id, user_id } });
    await navigate({ to: '/' });
    await queries.invalidateQueries(workspacesQuery);
  };
}

function Invites({ invites }: { readonly invites: AnswerOf<'listMembers'>['invites'] }) {
  const { id: workspace_id } = useWorkspace();
  const revoke = useAction('revokeInvite', { stale: ['listMembers'] });
  return (
    <Section title="Pending invitations" isFramed={false}>
      <Table
        label="Pending invitations"
        rows={invites}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Email', cell: ({ email }) => email },
          { title: 'Role', cell: ({ role }) => <RoleBadge role={role} /> },
          { title: 'Expires', cell: ({ expires_at }) => <Time at={expires_at} />, from: 'sm' },
          {
            title: 'Action',
            cell: ({ id, email }) => (
              <Button
                variant="danger"
                aria-label={`Revoke invitation of ${email}`}
                onPress={() => revoke.mutate({ params: { workspace_id, invite_id: id } })}
              >
                Revoke
              </Button>
            ),
          },
        ]}
      />
    </Section>
  );
}

function NewInvite({ onClose }: { readonly onClose: () => void }) {
  const workspace = useWorkspace();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<string>('member');
  const invite = useAction('createInvite', { stale: ['listMembers'], silent: true });
  // The link exists only in this state and is discarded with the dialog.
  const [made, setMade] = useState<{ readonly link: string; readonly isSent: boolean }>();
  const submit = async () => {
    try {
      const answer = await invite.mutateAsync({
        params: { workspace_id: workspace.id },
        body: { email: email.trim(), role: role as Role },
      });
      invite.reset();
      const { invite_url, email_sent } = answer.invite;
      const token = invite_url.slice(invite_url.lastIndexOf('/') + 1);
      setMade({
        link: new URL(`${BASE_PATH.replace(/\/$/, '')}/invites/${token}`, location.origin).href,
        isSent: email_sent,
      });
    } catch {
      // `invite.error` holds the reason.
    }
  };
  if (made !== undefined) {
    return (
      <ShownOnce title="Invitation created" text={made.link} onClose={onClose}>
        <p>
          {made.isSent
            ? `An email was sent to ${email.trim()}. You can also send this link.`
            : `This platform does not send email. Send this link to ${email.trim()}.`}{' '}
          Anyone with the link can join once, within seven days.
        </p>
      </ShownOnce>
    );
  }
  return (
    <Dialog
      title={`Invite a person to ${workspace.name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={invite.isPending} isDisabled={!email.includes('@')}>
            Create invitation
          </Button>
        </>
      }
    >
      <TextField label="Email" type="email" value={email} onChange={setEmail} autoFocus autoComplete="off" />
      <Select label="Role" choices={ROLES} value={role} onChange={setRole} />
      {invite.error && <ErrorBox error={invite.error} />}
    </Dialog>
  );
}
