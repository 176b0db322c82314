import { useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';

/** The API's rule for namespaces, which are lower-case. */
const NAMESPACE = /^(?:[a-z0-9-]{1,64}\.[a-z0-9-]{1,64}\.)?[a-z][a-z0-9-]{0,63}$/;
const KEY = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,255}$/;

/** Asks for the name of a new document and opens its page, which creates the document on save. */
export function NewDocument({ namespace: given }: { readonly namespace?: string }) {
  const { slug } = useWorkspace();
  const navigate = useNavigate();
  const [isOpen, setOpen] = useState(false);
  const [namespace, setNamespace] = useState(given ?? '');
  const [key, setKey] = useState('');
  const isNamespace = NAMESPACE.test(namespace);
  const isKey = KEY.test(key);
  const go = () => {
    if (!isNamespace || !isKey) return;
    const params = { workspace: slug, namespace, key };
    void navigate({ to: '/$workspace/storage/$namespace/$key', params, search: { new: 'yes' } });
  };
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
          <Button variant="primary" onPress={go} isDisabled={!isNamespace || !isKey}>
            Edit value
          </Button>
        }
      >
        <TextField
          label="Namespace"
          isMono
          value={namespace}
          onChange={setNamespace}
          autoFocus={given === undefined}
          error={
            namespace === '' || isNamespace
              ? undefined
              : 'Use 1 to 64 lowercase letters, digits and hyphens, starting with a letter.'
          }
        />
        <TextField
          label="Key"
          isMono
          value={key}
          onChange={setKey}
          autoFocus={given !== undefined}
          error={
            key === '' || isKey
              ? undefined
              : 'Use 1 to 256 letters, digits, dots, underscores and hyphens, starting with a letter or digit.'
          }
        />
      </Dialog>
    </>
  );
}
