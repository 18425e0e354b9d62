// «Tell me in this browser»: asks the browser for an address, and sends it with the form.
"use strict"

const form = document.querySelector("form[data-push-key]")
if (form) {
  form.addEventListener("submit", async (event) => {
    if (form.elements.endpoint.value) return
    event.preventDefault()
    try {
      if (!("PushManager" in window)) throw new Error("this browser cannot be told")
      if ((await Notification.requestPermission()) !== "granted") throw new Error("this browser does not allow it")
      const worker = await navigator.serviceWorker.register("/push-worker.js", { scope: "/" })
      await navigator.serviceWorker.ready
      const before = await worker.pushManager.getSubscription()
      if (before) await before.unsubscribe() // it may be of another key
      const options = { userVisibleOnly: true, applicationServerKey: form.dataset.pushKey }
      const found = (await worker.pushManager.subscribe(options)).toJSON()
      form.elements.endpoint.value = found.endpoint
      form.elements.p256dh.value = found.keys.p256dh
      form.elements.auth.value = found.keys.auth
      form.submit()
    } catch (error) {
      form.querySelector("output").textContent = `It did not work: ${error.message}.`
    }
  })
}
