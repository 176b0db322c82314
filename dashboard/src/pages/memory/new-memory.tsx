import { useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';

/** The API's rule for names. */
const NAME = /^(?=.{1,200}$)[A-Za-z0-9_-][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** Asks for the name of a new document and opens its page, which creates the document on save. */
export function NewMemory({ tenant }: { readonly tenant: string | undefined }) {
  const { slug } = useWorkspace();
  const navigate = useNavigate();
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState('');
  const isName = NAME.test(name);
  const go = () =>
    void navigate({
      to: '/$workspace/memory/$name',
      params: { workspace: slug, name },
      search: { tenant, new: 'yes' },
    });
  return (
    <>
      <Button variant="primary" icon={Plus} onPress={() => setOpen(true)}>
        New document
      </Button>
      <Dialog
        title="New document"
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        actions={
          <Button variant="primary" onPress={go} isDisabled={!isName}>
            Edit text
          </Button>
        }
      >
        <TextField
          label="Name"
          isMono
          value={name}
          onChange={setName}
          autoFocus
          error={
            name === '' || isName
              ? undefined
              : 'Use up to 200 letters, digits, dots, underscores and hyphens, in parts joined by slashes.'
          }
        />
      </Dialog>
    </>
  );
}
