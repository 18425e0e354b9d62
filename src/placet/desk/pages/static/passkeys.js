// Passkeys: the browser's own dialogue, between a question of the desk and its answer.
'use strict';
(() => {
  const $ = (selector, from) => (from || document).querySelector(selector);

  function tell(text) {
    const made = document.createElement('div');
    made.className = 'toast is-bad';
    made.textContent = text;
    $('#toasts').append(made);
    setTimeout(() => made.remove(), 9000);
  }

  // -- bytes as JSON has them ---------------------------------------------------------------------------------------

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (each) => each.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');

  function decoded(options) {
    const found = { ...options, challenge: bytes(options.challenge) };
    if (options.user) found.user = { ...options.user, id: bytes(options.user.id) };
    for (const name of ['allowCredentials', 'excludeCredentials']) {
      if (options[name]) found[name] = options[name].map((each) => ({ ...each, id: bytes(each.id) }));
    }
    return found;
  }

  function encoded(credential) {
    const response = {};
    for (const name of ['clientDataJSON', 'attestationObject', 'authenticatorData', 'signature', 'userHandle']) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response };
  }

  // -- to the desk and back -----------------------------------------------------------------------------------------

  async function ask(path, given) {
    const token = $('input[name=csrf_token]');
    const isForm = given instanceof URLSearchParams;
    const headers = { Accept: 'application/json', 'Content-Type': isForm ? 'application/x-www-form-urlencoded' : 'application/json' };
    if (token) headers['X-CSRF-Token'] = token.value;
    const answer = await fetch(path, { method: 'POST', headers, body: isForm ? given : JSON.stringify(given || {}) });
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(found.detail || 'The desk did not answer. Try again.');
    return found;
  }

  async function answer(question) {
    const credential = await navigator.credentials.get({ publicKey: decoded(question.publicKey) });
    return { nonce: question.nonce, credential: encoded(credential) };
  }

  async function sign(id) {
    const { missing } = await ask('/passkeys/sign', { ...await answer(await ask('/passkeys/sign/options', { id })), id });
    return missing;
  }

  const ACTIONS = {
    async login({ next }) {
      const found = await ask('/login/passkey', { ...await answer(await ask('/login/passkey/options')), next: next || '' });
      location.assign(found.next);
    },
    async confirm() {
      await ask('/passkeys/confirm', await answer(await ask('/passkeys/confirm/options')));
      location.reload();
    },
    async register({ name }) {
      const question = await ask('/passkeys/register/options');
      const made = await navigator.credentials.create({ publicKey: decoded(question.publicKey) });
      const found = await ask('/passkeys/register', { nonce: question.nonce, credential: encoded(made), name });
      if (found.sign_yourself) await sign(found.waiting);
      location.reload();
    },
    async remove({ id }) {
      const { waiting } = await ask('/passkeys/remove', { id });
      if (waiting) await sign(waiting);
      location.reload();
    },
    async sign({ id }) { await sign(id); location.reload(); },
    async withdraw({ id }) { await ask('/passkeys/withdraw', { id }); location.reload(); },
  };

  let isBusy = false; // one dialogue of the browser at a time

  async function run(action, given) {
    if (isBusy) return;
    isBusy = true;
    try {
      if (!navigator.credentials || !window.PublicKeyCredential) throw new Error('This browser, or this address, knows no passkeys: they need https, or localhost.');
      await action(given);
    } catch (error) {
      const wasClosed = error.name === 'NotAllowedError' || error.name === 'AbortError';
      tell(wasClosed ? 'Nothing was signed: the dialogue was closed, or no passkey fits.' : error.message);
    } finally { isBusy = false; }
  }

  document.addEventListener('click', (event) => {
    const target = event.target.closest('[data-passkey]');
    if (target) run(ACTIONS[target.dataset.passkey], target.dataset);
  });

  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (form.matches('[data-passkey-form]')) {
      event.preventDefault();
      run(ACTIONS[form.dataset.passkeyForm], Object.fromEntries(new FormData(form)));
    }
  });

  // A decision that has to be signed: what the form says goes to the desk, its question to the passkey, and the answer
  // is sent with the form. What the passkey signed is compared there with what the form says then.
  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (!form.matches('[data-sign]') || (event.submitter && event.submitter.name === 'change')) return;
    if (form.dataset.signed) { delete form.dataset.signed; return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    const submitter = event.submitter;
    run(async () => {
      for (const old of form.querySelectorAll('input[name=signature]')) old.remove();
      const question = await ask(form.dataset.sign, new URLSearchParams(new FormData(form, submitter)));
      if (question.nonce) {
        const field = document.createElement('input');
        Object.assign(field, { type: 'hidden', name: 'signature', value: JSON.stringify(await answer(question)) });
        form.append(field);
      }
      if (!form.isConnected) throw new Error('Another card is open by now: nothing was decided.');
      form.dataset.signed = '1';
      form.requestSubmit(submitter);
    });
  }, true);
})();
