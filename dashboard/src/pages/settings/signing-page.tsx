import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { absoluteTime } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

/** The secret for verifying signatures of alert webhooks. */
export function SigningPage() {
  const { id: workspace_id, role } = useWorkspace();
  const [isAsking, setAsking] = useState(false);
  // The secret exists only in this state and is discarded with the dialog.
  const [made, setMade] = useState<AnswerOf<'rotateSigningSecret'>>();
  const rotate = useAction('rotateSigningSecret', { silent: true });
  const confirm = async () => {
    const answer = await rotate.mutateAsync({ params: { workspace_id } });
    rotate.reset();
    setMade(answer);
  };
  return (
    <SettingsFrame
      part="signing"
      description="Lets receivers verify that an alert or a message comes from this workspace."
    >
      <Section title="Signing secret">
        <div className="flex max-w-2xl flex-col gap-3">
          <p>
            Alerts of schedules and budgets, and messages about ends of runs, have a header{' '}
            <Code>webhook-signature</Code>: an HMAC-SHA256 of id, time and body, with this secret. It is only shown
            once, when it is created.
          </p>
          <p className="text-soft">After a rotation, alerts are signed with both secrets for 24 hours.</p>
          {role === 'owner' ? (
            <div>
              <Button variant="primary" onPress={() => setAsking(true)}>
                Rotate secret
              </Button>
            </div>
          ) : (
            <p className="text-soft">Only workspace owners can create it.</p>
          )}
        </div>
      </Section>
      <ConfirmDialog
        title="Rotate the signing secret?"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        action="Rotate now"
        isDanger={false}
        onConfirm={confirm}
      >
        Receivers need the new secret. The old one remains valid for 24 hours.
      </ConfirmDialog>
      {made && (
        <ShownOnce title="The signing secret" text={made.signing_secret} onClose={() => setMade(undefined)}>
          {made.previous_valid_until && (
            <p>The previous secret is valid until {absoluteTime(Date.parse(made.previous_valid_until))}.</p>
          )}
        </ShownOnce>
      )}
    </SettingsFrame>
  );
}
